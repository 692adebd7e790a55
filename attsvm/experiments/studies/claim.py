"""Claim: one statement of one paper, and how it is run, judged and drawn.

A claim is judged from its saved result alone. The result holds what was measured (the data, the
weights along the run, the solutions with their multipliers); `check` recomputes every number from
it and certifies every solution again.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from attsvm.errors import Unsupported
from attsvm.references import REFERENCES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attsvm.experiments.studies.shared.stored import TrainingRun

# Numbers, texts and lists of them: what a JSON file can hold.
Config = dict[str, Any]
# Arrays by name: what an archive without pickles can hold.
Result = dict[str, NDArray[Any]]

Verdict = Literal["holds", "fails", "not reproduced at this size", "undecided"]
# question: asked by us, of what nobody published or of what a paper leaves open.
Kind = Literal["theorem", "figure", "question"]
# Where the statement comes from: read in a public abstract or caption, taken from released code,
# read off a published picture, recalled and not read again, derived from the definitions, or
# believed on other grounds and measured here.
Trust = Literal["read", "code", "image", "as recalled", "derived", "measured"]


@dataclass(frozen=True)
class Test:
    """One number against its threshold, fixed before the run; met is None when it is not judged."""

    what: str
    seen: float
    asked: str
    met: bool | None


def at_least(what: str, seen: float, threshold: float) -> Test:
    """The test seen ≥ threshold; a seen that is not a number does not meet it."""
    return Test(what, float(seen), f"≥ {threshold:g}", bool(seen >= threshold))


def at_most(what: str, seen: float, threshold: float) -> Test:
    """The test seen ≤ threshold; a seen that is not a number does not meet it."""
    return Test(what, float(seen), f"≤ {threshold:g}", bool(seen <= threshold))


def equals(what: str, seen: float, wanted: float, *, within: float = 0.0) -> Test:
    """The test |seen − wanted| ≤ within."""
    asked = f"= {wanted:g}" if within == 0.0 else f"= {wanted:g} ± {within:g}"
    return Test(what, float(seen), asked, bool(abs(seen - wanted) <= within))


def noted(what: str, seen: float) -> Test:
    """A number that is reported and not judged."""
    return Test(what, float(seen), "", None)


@dataclass(frozen=True)
class Finding:
    """What the check of a claim found.

    tests: the numbers; premises: what was checked on the instances before judging, with counts;
    judged: how many instances were inside the premises; gap: the largest certified gap of the
    solutions used; reason: why the verdict is not 'holds', or what a reader should know.
    """

    tests: tuple[Test, ...]
    premises: str
    judged: int
    gap: float
    reason: str = ""

    @property
    def verdict(self) -> Verdict:
        """holds when every judged test is met, undecided when there was nothing to judge.

        This is what the numbers say; `verdict_of` says what follows for the claim.
        """
        met = [test.met for test in self.tests if test.met is not None]
        if not met or self.judged == 0:
            return "undecided"
        return "holds" if all(met) else "fails"


@dataclass(frozen=True)
class Track:
    """A point that moves: its place at each frame, and its kind (a colour) at each frame.

    x, y: one number per frame, or a single one for a point that stays. kind: one digit per frame,
    or a single one for all.
    """

    name: str
    x: list[float]
    y: list[float]
    kind: str


@dataclass(frozen=True)
class Motion:
    """A picture that moves with a slider: tracks over the frames, lines and points that stay.

    steps: the iteration of each frame. kinds: the name of each kind. trail: whether a track leaves
    its past behind it as a line. lines: (name, x's, y's). points: (name, x, y).
    """

    title: str
    steps: list[int]
    tracks: list[Track]
    kinds: list[str]
    across: str
    up: str
    trail: bool = True
    lines: list[tuple[str, list[float], list[float]]] = field(default_factory=list)
    points: list[tuple[str, float, float]] = field(default_factory=list)


def frame_choice(steps: Any, most: int = 60) -> list[int]:
    """Up to `most` records, evenly spread over the log-spaced grid, the last included."""
    places = np.unique(np.linspace(0, len(steps) - 1, min(most, len(steps))).round().astype(int))
    return [int(k) for k in places]


@dataclass(frozen=True)
class Claim:
    """One statement, run, check and picture.

    id: paper letter (or `beyond`) and name. statement: in our words. full, quick: the two configs;
    quick has smaller counts and the same checks. run(config) measures; check(config, result)
    judges; plot(config, result) draws; motion, where there is one, is the moving picture.
    differs: how and why our result differs from the published figure, where it does.
    numbered: which theorem, lemma or figure it tests, such as "v1, Theorem 4"; empty where no
    number is known. size: of a figure, how its full run compares with the published one; it begins
    with "as published" where the run is no smaller.
    fixed: its instances are published ones, so that no others can be drawn in their place.
    needs: what a claim on real data needs beyond attsvm, by the names of studies/shared/needs.py;
    such claims are run by `attsvm reproduce --real` and by id. runs(config): its training runs,
    where they are done one by one, kept and shared (claims/shared/stored.py).
    module: the dotted name of the module it is written in, which it finds out by itself.
    """

    id: str
    title: str
    kind: Kind
    trust: Trust
    statement: str
    full: Config
    quick: Config
    run: Callable[[Config], Result]
    check: Callable[[Config, Result], Finding]
    plot: Callable[[Config, Result], Figure]
    motion: Callable[[Config, Result], Motion] | None = None
    differs: str = ""
    fixed: bool = False
    needs: tuple[str, ...] = ()
    runs: Callable[[Config], Sequence[TrainingRun]] | None = None
    reference: str = ""
    numbered: str = ""
    size: str = ""
    module: str = ""

    def __post_init__(self) -> None:
        """Note the module that makes the claim, two frames up: this method, __init__, it."""
        if not self.module:
            made_in = sys._getframe(2).f_globals.get("__name__", "__main__")
            object.__setattr__(self, "module", made_in)

    @property
    def paper(self) -> str:
        """The paper's letter, or `beyond`."""
        return self.id.partition(".")[0]

    @property
    def real(self) -> bool:
        """Whether it is a claim on real data."""
        return bool(self.needs)


class BadClaim(Unsupported):
    """A claim that breaks one of the laws below: the message says which claim and which law."""


class NothingInside(Unsupported):
    """Raised by a run that its premises leave without an instance; the message counts them.

    The claim is then undecided, and no fault of the run.
    """


_ID = re.compile(r"[A-Za-z]\w*\.\w[\w-]*", re.ASCII)


def law_broken(claim: Claim) -> str:
    """The law that a claim breaks before it is run, in words; empty when it breaks none."""
    texts = {
        name: getattr(claim, name) for name in ("title", "statement", "differs", "numbered", "size")
    }
    words: tuple[tuple[str, object, tuple[str, ...]], ...] = (
        ("kind", claim.kind, get_args(Kind)),
        ("trust", claim.trust, get_args(Trust)),
        ("reference", claim.reference, ("", *REFERENCES)),
    )
    if not isinstance(claim.id, str) or not _ID.fullmatch(claim.id):
        return f"id is a paper, a dot and a name, such as mine.first; this is {claim.id!r}"
    for name, text in texts.items():
        if not isinstance(text, str) or (not text and name in ("title", "statement")):
            return f"{name} is a text; this is {text!r}"
    for name, word, known in words:
        if word not in known:
            return f"{name} is one of {', '.join(filter(None, known))}; this is {word!r}"
    if claim.kind == "question" and claim.differs:
        return "a question differs from nothing that is published: say it in the statement"
    for name in ("run", "check", "plot", "motion"):
        part = getattr(claim, name)
        if not callable(part) and not (name == "motion" and part is None):
            return f"{name} is a function; this is {part!r}"
    for name in ("full", "quick"):
        try:
            if not isinstance(getattr(claim, name), dict):
                raise TypeError("it is no dict")
            json.dumps(getattr(claim, name), allow_nan=False)
        except (TypeError, ValueError) as error:
            return f"{name} is a dict that JSON can hold ({error})"
    apart = sorted(claim.full.keys() ^ claim.quick.keys())
    return f"full and quick have the same keys; {apart[0]!r} is in one" if apart else ""


def lawful_result(claim: Claim, result: Any) -> Result:
    """What a claim's run returned; raises BadClaim unless it is a dict of plain arrays by name."""
    law = f"{claim.id} breaks its contract: run returns a dict of arrays by name; this"
    if not isinstance(result, dict):
        raise BadClaim(f"{law} is of type {type(result).__name__}")
    for name, array in result.items():
        if not isinstance(name, str):
            raise BadClaim(f"{law} has the name {name!r}")
        if np.asarray(array).dtype.kind not in "biufU":
            raise BadClaim(f"{law} has {name} of type {np.asarray(array).dtype}")
    return result


def lawful_part(claim: Claim, name: str, made: Any, kind: str) -> Any:
    """What a claim's check, plot or motion returned; raises BadClaim unless it is of this kind."""
    if kind not in {cls.__name__ for cls in type(made).__mro__}:
        raise BadClaim(
            f"{claim.id} breaks its contract: {name} returns a {kind}; this is of type "
            f"{type(made).__name__}"
        )
    return made


def seeds_of(config: Config) -> list[int]:
    """The seeds of a config's instances: those listed, or so many from `first` on (0 without)."""
    seeds, first = config["seeds"], config.get("first", 0)
    return list(range(first, first + seeds)) if isinstance(seeds, int) else list(seeds)


def can_redraw(claim: Claim) -> bool:
    """Whether the claim has random instances that others can take the place of."""
    return not claim.fixed and "seeds" in claim.full


def redrawn(config: Config, *, instances: int | None = None, first: int | None = None) -> Config:
    """The config with so many instances, from this seed on; what is None stays as it is.

    Seeds of random starts move by `first` as well.
    """
    if instances is not None and instances < 2:
        raise Unsupported(f"--instances is {instances}: a share needs at least 2")
    if first is not None and not 0 <= first < 2**31:
        raise Unsupported(f"--first is {first}: a seed is from 0 to {2**31 - 1}")
    out, old = dict(config), seeds_of(config)
    count = len(old) if instances is None else instances
    begin = min(old) if first is None else first
    if isinstance(config["seeds"], int):
        out["seeds"] = count
        if first is not None:
            out["first"] = first
    elif instances is not None or first is not None:
        out["seeds"] = list(range(begin, begin + count))
    if first is not None:
        out |= {key: config[key] + first for key in ("start", "seed") if key in config}
    return out


# A size that differs from the published one by the number of instances alone.
_PART = re.compile(r"(\d+) of (\d+) instances")
# What `redrawn` changes in a config.
_DRAWN = ("seeds", "first", "start", "seed")


def verdict_of(claim: Claim, config: Config, found: Finding) -> tuple[Verdict, str]:
    """The verdict on a claim run with this config, and the reason.

    Numbers that are not met make a statement fail, with two exceptions: one that is given from
    memory is undecided, since the paper may say something else, and a figure whose run is smaller
    than the published one is not reproduced at this size.
    """
    if found.verdict != "fails":
        return found.verdict, found.reason
    if claim.trust == "as recalled":
        why = "The statement is from memory and was not read again, so it is not said to fail."
        return "undecided", f"{why} {found.reason}".strip()
    if claim.kind == "figure" and _smaller(claim, config):
        why = f"This run is smaller than the published one (at full size: {claim.size})."
        return "not reproduced at this size", f"{why} {found.reason}".strip()
    return found.verdict, found.reason


def _smaller(claim: Claim, config: Config) -> bool:
    """Whether a run of the figure is smaller than the published one; False where it is not said."""
    if not claim.size:
        return False
    fixed = [{k: v for k, v in c.items() if k not in _DRAWN} for c in (config, claim.full)]
    counts: list[float] = [len(seeds_of(c)) if "seeds" in c else 1 for c in (config, claim.full)]
    part = _PART.fullmatch(claim.size)
    if part:  # more instances than at full size may be as many as published
        counts[1] *= int(part[2]) / int(part[1])
    whole = part is not None or claim.size.startswith("as published")
    return not whole or fixed[0] != fixed[1] or counts[0] < counts[1]


def config_hash(config: Config) -> str:
    """Twelve hex digits that name a config."""
    text = json.dumps(config, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def describe(test: Test) -> dict[str, Any]:
    """The test as JSON can hold it; numbers that are not finite become texts."""
    out = asdict(test)
    out["seen"] = test.seen if np.isfinite(test.seen) else str(test.seen)
    return out
