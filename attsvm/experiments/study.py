"""Study: one statement, how it is measured on instances, and what its table of rows must show.

A study draws instances (`family`, at the points of `grid`, for each seed), measures each
(`measure(group)`, one row per instance), and checks the table of all rows
(`checks(table, thresholds)`). The runner (`attsvm.experiments.runner`) does the rest: chunks of
rows, files, verdict, figure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, get_args

from attsvm._utils.objects import is_outside, load_object, unknown
from attsvm.errors import BadTokens, Unsupported
from attsvm.references import REFERENCES

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    # The type of a table of rows; importing a study loads no pandas.
    Table = DataFrame
else:
    Table = Any

Verdict = Literal["holds", "fails", "not reproduced at this size", "undecided", "measured"]
# question: asked by us, of what nobody published or of what a paper leaves open.
Kind = Literal["theorem", "figure", "question"]
# Where the statement comes from: the paper's text, its released code, a published figure, recalled
# and not read again, derived from the definitions, or measured here first.
Source = Literal["paper", "code", "figure", "from memory", "derived", "measured"]

# How a group is trained, unless the study or its grid says otherwise.
RUN: dict[str, Any] = {
    "model": "weight",
    "optimizer": "ngd",
    "loss": "logistic",
    "lr": 0.1,
    "steps": 1000,
    "decay": 0.0,
    "schedule": "constant",
    "width": 0,
    "init": "default",
    "start": 0,
}
# Letter of an id -> key of the paper in the bibliography.
PAPERS = {
    "A": "tarzanagh2023maxmargin",
    "B": "tarzanagh2023svm",
    "C": "julistiono2024mirror",
    "D": "huang2024nexttoken",
}
MOST = 10**9
# The seed of rows about a published example, which are the same in every chunk.
EXAMPLE = -1


@dataclass(frozen=True)
class Check:
    """One number against its threshold, fixed before the run; met is None when it is not judged."""

    what: str
    seen: float
    asked: str
    met: bool | None


def at_least(what: str, seen: float, threshold: float) -> Check:
    """The check seen ≥ threshold; a NaN does not meet it."""
    return Check(what, float(seen), f"≥ {threshold:g}", bool(seen >= threshold))


def at_most(what: str, seen: float, threshold: float) -> Check:
    """The check seen ≤ threshold; a NaN does not meet it."""
    return Check(what, float(seen), f"≤ {threshold:g}", bool(seen <= threshold))


def equals(what: str, seen: float, wanted: float, *, within: float = 0.0) -> Check:
    """The check |seen − wanted| ≤ within; a NaN does not meet it."""
    asked = f"= {wanted:g}" if within == 0.0 else f"= {wanted:g} ± {within:g}"
    return Check(what, float(seen), asked, bool(abs(seen - wanted) <= within))


def info(what: str, seen: float) -> Check:
    """A number that is reported and not judged."""
    return Check(what, float(seen), "", None)


def mostly(what: str, wins: Iterable[bool]) -> Check:
    """The check that more than half of the runs win, beyond chance: a sign test at 1 %.

    Where more than half of fewer than 20 runs win, and chance would do as much, it is not judged.
    """
    from scipy.stats import binomtest

    each = [bool(win) for win in wins]
    count, total = sum(each), len(each)
    chance = binomtest(count, total, alternative="greater").pvalue if total else math.nan
    check = at_most(f"{what}: {count} of {total} runs, sign test", chance, 0.01)
    if check.met or total >= 20 or (total and 2 * count <= total):
        return check
    return info(f"{check.what}, too few to say", check.seen)


@dataclass(frozen=True)
class Premises:
    """What was verified of the instances before judging.

    judged: how many instances meet the premises; 0 leaves the study undecided. text: the premises
    with their counts. gap: the largest certified gap of the solutions used; that of the table's
    column `gap` where it is not given, 0 without one.
    """

    judged: int
    text: str
    gap: float | None = None


@dataclass(frozen=True)
class Note:
    """What a reader should know about the verdict, in a sentence."""

    text: str


Found = Check | Premises | Note
# What checks yield.
Checks = Iterator[Found]


@dataclass(frozen=True)
class Finding:
    """What the checks of a study found on its table."""

    checks: tuple[Check, ...]
    premises: Premises
    reason: str = ""

    @property
    def met(self) -> bool | None:
        """Whether all judged checks are met; None when there was nothing to judge."""
        met = [check.met for check in self.checks if check.met is not None]
        return all(met) if met and self.premises.judged else None


@dataclass(frozen=True)
class Study:
    """One statement, its instances, its measure and its checks.

    Parameters
    ----------
    id : str
        Paper letter (or `beyond`), a dot and a name, such as ``B.rank``.
    title, statement : str
        The statement in our words; the title in a few.
    kind : {"theorem", "figure", "question"}
    source : {"paper", "code", "figure", "from memory", "derived", "measured"}
        Where the statement was read.
    measure : callable or str or tuple of str
        ``measure(group, **parameters) -> {column: values}``: one value per instance, or, with a
        column ``seed`` among them, any number of rows, or a list of such parts, in which a single
        value stands for every row; the seed EXAMPLE marks rows about a published example. Names
        are those of `measures.MEASURES`.
    checks : callable, optional
        ``checks(table, thresholds)`` yields `at_least`, `at_most`, `equals`, `info`, `Premises` and
        `Note`. `table` is a pandas DataFrame with the grid's columns, `seed`, and the measured
        columns. A study without checks is a sweep: it is measured and not judged.
    thresholds : dict
        Numbers that the checks compare with.
    gap : float, optional
        The largest certified gap that the solutions may have: one more check.
    family : callable or str, optional
        ``family(seeds, **parameters) -> Drawn``; without one the measure draws what it needs.
    grid : dict
        Parameters with several values; their product is run. A key of several names, such as
        ``"n T"``, has tuples as values.
    run : dict
        Parameters with one value: of the family, of the training run (`RUN`), of the measure.
    seeds, first : int
        Instances per point, and the seed of the first one.
    group : int
        Instances in one chunk: they are trained as one stack and kept in one file.
    quick : dict
        What differs in a small run: ``seeds``, ``grid``, ``run``, ``thresholds``, ``group``.
    figure : dict or callable, optional
        A standard figure (`figures.FIGURES`), such as
        ``{"kind": "curves", "x": "d", "value": "rank"}``, or ``figure(table, study) -> Figure``.
    differs : str
        How and why the result differs from the published one, where it does.
    reference, theorem : str
        Key in `attsvm.references` (default: the paper of the id's letter), and number in the paper,
        such as "v1, Theorem 4".
    size : str
        Of a figure: how the full run compares with the published one; begins with "as published"
        where it is no smaller.
    published : bool
        Whether the instances are published ones: no others can be drawn in their place.
    needs : tuple of str
        What a study on real data needs, by the names of `studies.missing`.
    tolerances : dict
        Absolute differences that an audit allows in columns of rounding errors, by column.
    """

    id: str
    title: str
    statement: str
    kind: Kind
    source: Source
    measure: Any
    checks: Callable[[DataFrame, Any], Iterable[Found]] | None = None
    thresholds: Mapping[str, Any] = field(default_factory=dict)
    gap: float | None = None
    family: Any = None
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = 1
    first: int = 0
    group: int = 100
    quick: Mapping[str, Any] = field(default_factory=dict)
    figure: Mapping[str, Any] | Callable[[DataFrame, Study], Figure] | None = None
    differs: str = ""
    reference: str = ""
    theorem: str = ""
    size: str = ""
    published: bool = False
    needs: tuple[str, ...] = ()
    tolerances: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = PAPERS.get(str(self.id).partition(".")[0], "")
        object.__setattr__(self, "reference", self.reference or known)

    @property
    def paper(self) -> str:
        """The paper's letter, or `beyond`."""
        return self.id.partition(".")[0]

    @property
    def measures(self) -> tuple[Any, ...]:
        """The measures, one or several."""
        given = self.measure
        return tuple(given) if isinstance(given, tuple | list) else (given,)

    @property
    def real(self) -> bool:
        """Whether it is a study on real data."""
        return bool(self.needs)

    @property
    def swept(self) -> list[str]:
        """The parameters that differ from point to point: the first columns of the table."""
        return [name for key in self.grid for name in key.split()]

    def points(self) -> Iterator[dict[str, Any]]:
        """The parameters of every point, those with one value included, in the table's order."""
        for values in product(*self.grid.values()):
            point = dict(self.run)
            for key, value in zip(self.grid, values, strict=True):
                names = key.split()
                point |= zip(names, value, strict=True) if len(names) > 1 else [(key, value)]
            yield point

    @property
    def instances(self) -> int:
        """How many instances there are: points times seeds."""
        return math.prod(map(len, self.grid.values())) * self.seeds

    def blocks(self) -> list[tuple[int, ...]]:
        """The seeds of each chunk of a point: cut at multiples of the group's size.

        A whole block stays the same one when seeds are added on either side.
        """
        last = self.first + self.seeds
        edges = [self.first, *range((self.first // self.group + 1) * self.group, last, self.group)]
        cuts = zip(edges, [*edges[1:], last], strict=True)
        return [tuple(range(begin, end)) for begin, end in cuts]

    def at(
        self, *, quick: bool = False, seeds: int | None = None, first: int | None = None
    ) -> Study:
        """The study as it is run: at its quick size, with other seeds."""
        smaller: dict[str, Any] = {
            name: {**getattr(self, name), **value} if isinstance(value, Mapping) else value
            for name, value in self.quick.items()
        }
        out = replace(self, **smaller) if quick else self
        if self.published:
            return out
        if seeds is not None:
            out = replace(out, seeds=whole(seeds, f"{self.id}: seeds", 1))
        return out if first is None else replace(out, first=whole(first, f"{self.id}: first", 0))


class BadStudy(Unsupported):
    """A study that breaks the contract; the message names the study and what is wrong."""


_ID = re.compile(r"[A-Za-z]\w*\.\w[\w-]*", re.ASCII)
QUICK = ("seeds", "first", "group", "run", "grid", "thresholds")


def check_study(study: Study) -> None:
    """Raise BadStudy if the study breaks the contract before it is run."""
    try:
        _check_texts(study)
        for size in (study, study.at(quick=True)):
            check_parameters(size)
        if study.figure is not None:
            from attsvm.experiments.figures import check_figure

            check_figure(study.figure)
    except (BadTokens, Unsupported) as error:
        raise BadStudy(f"{study.id}: {error}") from error


def _check_texts(study: Study) -> None:
    if not isinstance(study.id, str) or not _ID.fullmatch(study.id):
        raise BadTokens(f"id is a paper, a dot and a name, such as mine.first; not {study.id!r}")
    for name in ("title", "statement", "differs", "theorem", "size"):
        text = getattr(study, name)
        if not isinstance(text, str) or (not text and name in ("title", "statement")):
            raise BadTokens(f"{name} is a text; this is {text!r}")
    known: dict[str, Iterable[str]] = {
        "kind": get_args(Kind), "source": get_args(Source), "reference": ("", *REFERENCES),
    }  # fmt: skip
    for name, words in known.items():
        if getattr(study, name) not in words:
            listed = ", ".join(filter(None, words))
            raise BadTokens(f"{name} is one of {listed}; this is {getattr(study, name)!r}")
    if study.kind == "question" and study.differs:
        raise BadTokens("a question differs from nothing that is published")
    if not study.measure:
        raise BadTokens("it has no measure: give measure=, a function of a group")
    if study.checks is not None and not callable(study.checks):
        raise BadTokens(f"checks is a function of table and thresholds; this is {study.checks!r}")
    for key in study.quick:
        if key not in QUICK:
            raise BadTokens(unknown("key of quick", key, QUICK))


def check_parameters(study: Study) -> None:
    """Raise BadTokens unless each parameter is taken by some part of the study, once."""
    takers = [*parameters_of(study.family), *RUN]
    for measure in measures_of(study):
        takers += parameters_of(measure)
    for table, names in (("run", [*study.run]), ("grid", study.swept)):
        for name in names:
            if name not in takers:
                raise BadTokens(f"{table}: {unknown('parameter', name, sorted(set(takers)))}")
    if both := [name for name in study.swept if name in study.run]:
        raise BadTokens(f"{both[0]} is in run and in grid")
    for key, values in study.grid.items():
        if not len(values):
            raise BadTokens(f"grid.{key} is empty: a grid without values has no points")
    whole(study.seeds, "seeds", 1)
    whole(study.first, "first", 0)
    whole(study.group, "group", 1)
    if study.instances > MOST:
        raise BadTokens(f"it has {study.instances} instances: at most {MOST} are run")


def whole(value: Any, what: str, least: int) -> int:
    """A whole number from `least` to 2³¹ − 1; raise BadTokens otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
        raise BadTokens(f"{what} is {value!r}: it is a whole number from {least} on")
    return value


# ---------------------------------------------------------------- functions by name


def family_of(family: Any) -> Callable[..., Any]:
    """The family itself, the one of this name, or of FILE.py:NAME."""
    from attsvm.experiments.families import FAMILIES

    return _function(family, "family", FAMILIES)


def measure_of(measure: Any) -> Callable[..., Any]:
    """The measure itself, the one of this name, or of FILE.py:NAME."""
    from attsvm.experiments.measures import MEASURES

    return _function(measure, "measure", MEASURES)


def measures_of(study: Study) -> list[Callable[..., Any]]:
    """The functions that measure a study."""
    return [measure_of(one) for one in study.measures]


def _function(given: Any, what: str, known: Mapping[str, Any]) -> Callable[..., Any]:
    if isinstance(given, str) and is_outside(given):
        given = load_object(given, f"a {what}")
    elif isinstance(given, str):
        if given not in known:
            raise Unsupported(f"{unknown(what, given, known)}, or FILE.py:NAME")
        given = known[given]
    if not callable(given):
        raise Unsupported(f"a {what} is a function; this is {given!r}")
    return given


def parameters_of(part: Any) -> list[str]:
    """The parameters of a family or a measure beside its first one; none without a family."""
    if part is None:
        return []
    return list(signature(family_of(part)).parameters)[1:]


# ---------------------------------------------------------------- judging


def judge(study: Study, table: DataFrame) -> Finding:
    """What the checks find on the table; raise BadStudy where they break the contract."""
    if study.checks is None:
        return Finding((), Premises(len(table), f"{len(table)} rows"))
    if table.empty:
        return Finding((), Premises(0, "no instance meets the premises"))
    try:
        found: list[Any] = list(study.checks(table, study.thresholds))
    except (KeyError, AttributeError) as error:
        if isinstance(error, AttributeError) and "DataFrame" not in str(error):
            raise
        name = error.name if isinstance(error, AttributeError) else error.args[0]
        raise BadStudy(
            f"{study.id}: the checks need {name!r}, and the table has the columns "
            f"{', '.join(map(str, table.columns))}; the thresholds are "
            f"{', '.join(study.thresholds) or 'none'}"
        ) from error
    for one in found:
        if not isinstance(one, Check | Premises | Note):
            raise BadStudy(
                f"{study.id}: checks yields at_least, at_most, equals, info, Premises and Note; "
                f"this is of type {type(one).__name__}"
            )
    count = int(table["seed"].nunique()) if "seed" in table else len(table)
    given = [one for one in found if isinstance(one, Premises)]
    premises = given[-1] if given else Premises(count, f"{count} instances")
    if premises.gap is None:
        gaps = table["gap"].dropna() if "gap" in table else []
        premises = replace(premises, gap=float(max(gaps, default=0.0)))
    checks = [one for one in found if isinstance(one, Check)]
    if study.gap is not None:
        checks.append(at_most("largest certified gap", premises.gap or 0.0, study.gap))
    notes = [one.text for one in found if isinstance(one, Note) and one.text]
    return Finding(tuple(checks), premises, " ".join(notes))


def verdict_of(whole_study: Study, run: Study, found: Finding) -> tuple[Verdict, str]:
    """The verdict on a study run at this size, and the reason.

    Checks that are not met make a statement fail, with two exceptions: one that is given from
    memory is undecided, since the paper may say something else, and a figure whose run is smaller
    than the published one is not reproduced at this size.
    """
    if run.checks is None:
        return "measured", found.reason
    if found.met is None:
        return "undecided", found.reason
    if found.met:
        return "holds", found.reason
    if run.source == "from memory":
        why = "The statement is from memory and was not read again, so it is not said to fail."
        return "undecided", f"{why} {found.reason}".strip()
    if run.kind == "figure" and _smaller(whole_study, run):
        why = f"This run is smaller than the published one (at full size: {run.size})."
        return "not reproduced at this size", f"{why} {found.reason}".strip()
    return "fails", found.reason


# A size that differs from the published one by the number of instances alone.
_PART = re.compile(r"(\d+) of (\d+) instances")


def _smaller(full: Study, run: Study) -> bool:
    """Whether a run of a figure is smaller than the published one; False where it is not said."""
    if not full.size:
        return False
    needed: float = full.seeds
    part = _PART.fullmatch(full.size)
    if part:  # more instances than at full size may be as many as published
        needed *= int(part[2]) / int(part[1])
    as_published = part is not None or full.size.startswith("as published")
    same = full.grid == run.grid and full.run == run.run
    return not as_published or not same or run.seeds < needed
