"""The claims, by id: paper letter and name. `B.rank` is claims/b/rank.py."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from attsvm.errors import Unsupported
from attsvm.experiments.studies import a, b, beyond, c, d
from attsvm.experiments.studies.claim import Claim

CLAIMS: dict[str, Claim] = a.CLAIMS | b.CLAIMS | c.CLAIMS | d.CLAIMS | beyond.CLAIMS


def claim_of(name: str, known: Mapping[str, Claim] = CLAIMS) -> Claim:
    """The claim of this id among the known; an unknown one is answered with the nearest."""
    if name in known:
        return known[name]
    near = get_close_matches(name, known, n=3, cutoff=0.3)
    hint = f"nearest are {', '.join(near)}" if near else "`attsvm list` names them all"
    if known is not CLAIMS:
        hint = f"the file has {', '.join(known)}"
    raise Unsupported(f"unknown claim {name!r}: {hint}")
