"""Claims of one's own: a Python file that defines CLAIM, or CLAIMS with several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from attsvm._utils.objects import load_module
from attsvm.experiments.studies import CLAIMS
from attsvm.experiments.studies.claim import BadClaim, Claim, law_broken


def known_claims(source: str | Path | None) -> Mapping[str, Claim]:
    """The claims of a file, by id; those of the package without one."""
    return CLAIMS if source is None else claims_from(source)


def claims_from(source: str | Path) -> dict[str, Claim]:
    """The claims that a Python file defines as CLAIM or CLAIMS, by id, in their order.

    CLAIM is a Claim; CLAIMS is a dict, tuple or list of them. Raises Unsupported when the file does
    not import, and BadClaim when it holds no claim or one that breaks a law of its contract.
    """
    names = vars(load_module(Path(source)))
    given = [entry for name in ("CLAIM", "CLAIMS") if name in names for entry in _each(names[name])]
    if not given:
        raise BadClaim(f"{source} holds no claim: it must define CLAIM or CLAIMS")
    found: dict[str, Claim] = {}
    for claim in given:
        if not isinstance(claim, Claim):
            raise BadClaim(f"{source} has in CLAIM or CLAIMS what is no Claim: {claim!r}")
        if found.get(claim.id) is claim:  # named by both
            continue
        law = law_broken(claim)
        if claim.id in found or claim.id in CLAIMS:
            law = f"the id is taken {'twice' if claim.id in found else 'by a claim of attsvm'}"
        if law:
            raise BadClaim(f"{source}: {claim.id} breaks its contract: {law}")
        found[claim.id] = claim
    return found


def _each(given: object) -> Iterable[object]:
    """The entries of CLAIM or CLAIMS."""
    if isinstance(given, dict):
        return list(given.values())
    return list(given) if isinstance(given, tuple | list) else [given]
