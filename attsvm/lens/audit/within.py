"""How far a figure that is measured again may be from the one on file, and whether it is.

Another processor rounds another way: the forward pass is in single precision, a solve stops a step
earlier or later, and a choice between two nearly equal logits can turn. Between kernels for two
kinds of processor (OPENBLAS_CORETYPE) the figures of 18 heads of MiniLM differed by a share of 2e-5
at most, and no query turned; what is allowed here is wider, for models that are deeper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from attsvm.lens.audit.row import Check

Row = Mapping[str, Any]


class Within(NamedTuple):
    """Two figures agree when they are `least` apart, or `share` of the larger one.

    turned: for shares of so many queries, as many of them may have turned.
    """

    share: float = 0.0
    least: float = 0.0
    turned: int = 0


EXACT = Within()
# The forward pass, and what is computed from it directly.
PASS = Within(share=1e-4, least=1e-5)
# Shares of queries by the head's own choice; and by fits, which stop early.
CHOICES, FITS = Within(turned=1), Within(turned=2)
# Cosines of fits; margins that a solve decided.
DIRECTIONS, DECIDED = Within(least=1e-4), Within(share=0.01, least=5)
# Bounds of a solve, and quotients of such bounds.
BOUNDS = Within(share=1e-3, least=1e-9)
# Medians of radii, and means of counts that stop at a bound.
RADII, KEPT = Within(share=1e-3, least=1e-5), Within(least=5e-4)
# A margin this many times as wide as another's is that of choices that no matrix makes.
ENDLESS = 1e6

_BY_NAME: dict[Within, tuple[str, ...]] = {
    CHOICES: (
        *("rule_agreement", "mean_query_agreement", "saturated", "evictable_queries"),
        *("key_radius_share", "query_radius_share", "int8_safe", "int8_same"),
        *("saturated_before", "saturated_after", "growth_rule"),
    ),
    FITS: (
        *("svm_agreement", "mean_difference_agreement", "cross_entropy_agreement"),
        *("soft_cross_entropy_agreement", "lift"),
        *("growth_svm", "growth_mean_difference", "growth_change"),
    ),
    DIRECTIONS: (
        *("cosine", "cosine_before", "cosine_after"),
        *("growth_cosine", "growth_cosine_low", "growth_cosine_high"),
    ),
    BOUNDS: (
        *("economy", "economy_lower", "economy_seen", "nuclear_economy", "nuclear_economy_lower"),
        *(
            f"economy_{null}{end}"
            for null in ("spectrum", "rotated")
            for end in ("_low", "", "_high")
        ),
        *(f"nuclear_economy_{null}" for null in ("spectrum", "rotated")),
        *("ease", "best", "svm_gaps"),
    ),
    DECIDED: ("tight_margins", "loose_margins", "undecided_margins", "attacks"),
    RADII: ("key_radius", "query_radius", "gap"),
    KEPT: ("evictable", "evictable_margins"),
    Within(least=0.02): ("tight_lower",),
    Within(share=1e-4, least=1e-4): ("head_gaps",),
    Within(turned=1): ("chosen_share",),
    EXACT: (
        *("layer", "head", "queries", "fitted", "tested", "content_queries", "violations"),
        *("position", "chosen", "offset"),
    ),
    Within(least=2): ("economy_queries", "tied", "grown"),
}
WITHIN: dict[str, Within] = {name: within for within, names in _BY_NAME.items() for name in names}
# Never compared: processor time.
TIMES = {"seconds"}


def within_of(field: str) -> Within:
    """How closely this field is compared; `content_` fields as those with special keys."""
    return WITHIN.get(field, WITHIN.get(field.removeprefix("content_"), PASS))


def row_checks(saved: Row, again: Row, *, of: Mapping[str, int]) -> Iterator[Check]:
    """Whether every figure of a row on file is the one measured again.

    of: how many queries the shares in each field are of, by field.
    """
    for name, value in again.items():
        if name in TIMES:
            continue
        held = saved.get(name)
        if name == "ease":
            held, value = _endless(held), _endless(value)
        fine = agree(held, value, within_of(name), of.get(name, 0))
        if not fine and name.endswith("kind"):
            fine = _on_the_edge(saved, of)
        yield fine, f"{name} is {_shown(held)} on file, {_shown(value)} when it is measured again"


def agree(saved: Any, again: Any, within: Within, queries: int) -> bool:
    """Whether two figures, or lists of them, agree. queries: what a share is of, 0: no share."""
    if isinstance(saved, list) and isinstance(again, list):
        pairs = zip(saved, again, strict=False)
        return len(saved) == len(again) and all(agree(a, b, within, queries) for a, b in pairs)
    figures = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (saved, again))
    if not figures:
        return type(saved) is type(again) and bool(saved == again)
    turned = within.turned / queries if queries else 0.0
    allowed = max(within.share * max(abs(saved), abs(again)), within.least, turned * (1 + 1e-9))
    return bool(abs(saved - again) <= allowed)


def _endless(ease: Any) -> Any:
    """The ease, None where it is so large that rounding makes it."""
    return None if isinstance(ease, int | float) and ease > ENDLESS else ease


def _on_the_edge(saved: Row, of: Mapping[str, int]) -> bool:
    """Whether the figures that make a kind lie so near to its thresholds that it may turn."""
    for prefix in ("", "content_"):
        for name, edge in (("rule_agreement", 0.5), ("svm_agreement", 0.5), ("lift", 0.1)):
            value, queries = saved.get(prefix + name), of.get(prefix + name, 0)
            if value is not None and agree(value, edge, within_of(name), queries):
                return True
    return False


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.8g}"
    said = str(value)
    return said if len(said) <= 60 else f"{said[:60]}…"
