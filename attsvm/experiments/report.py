"""The page of a folder of results.

`write_report(folder)` draws DIR/report.html from results.json and the figures: one HTML file that
needs nothing else.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attsvm._utils.files import parse_json, write_text, writing_to
from attsvm._utils.version import __version__
from attsvm.errors import BadTokens
from attsvm.experiments.runner import PAGE, RESULTS, Record
from attsvm.experiments.study import PAPERS
from attsvm.plotting.html import LARGEST, picture, render
from attsvm.references import REFERENCES

VERDICTS = ("holds", "fails", "not reproduced at this size", "undecided")
# Shape and word beside the colour, which not everybody sees.
MARKS = {"holds": "✓", "fails": "✗", "not reproduced at this size": "≠", "undecided": "?",
         "measured": "·"}  # fmt: skip
KINDS = {
    "theorem": "Theorem: judged only on instances that meet its premises.",
    "figure": "Figure: the published experiment, run again.",
    "question": "Question: our own, unpublished or left open by a paper.",
}
SOURCES = {
    "paper": "The statement was read in the paper, its abstract, a caption or its slides.",
    "code": "The statement is what the authors' released code does.",
    "figure": "The statement was read off the published figure.",
    "from memory": "The statement is given from memory; it was not read again.",
    "derived": "The statement follows from the definitions.",
    "measured": "The statement is believed on other grounds and measured here.",
}
LEAD = (
    "attsvm trains one-layer attention exactly, solves the max-margin problem that theory names as "
    "its limit with a certificate, and tests the statements of four papers, and questions of its "
    "own, on fresh data."
)
# One sentence for each word of a verdict.
MEANING = {
    "holds": "Every number asked of the statement, fixed before the run, is met on instances that "
    "meet its premises.",
    "fails": "One of these numbers is not met: a finding about the statement, not a fault of the "
    "run.",
    "not reproduced at this size": "The numbers of a published figure are not met in a run that is "
    "smaller than the published one.",
    "undecided": "No instance meets the premises, or the study could not be run, or its numbers "
    "are not met and the statement is from memory.",
    "differs": "The statement holds, or fails, in another way than what is published.",
}
# What fails is of two kinds.
FAILING = {False: "Statements of papers that fail", True: "Questions of ours, answered no"}
# What the page is searched for.
_SEARCHED = ("id", "title", "statement", "reason", "differs", "theorem")
# Characters for all figures together, so that the page stays easy to send.
FIGURES = 6_500_000


def read_results(folder: Path) -> list[Record]:
    """The records of results.json; raise BadTokens where they cannot be read."""
    file = folder / RESULTS
    if not file.exists():
        raise BadTokens(f"{folder} has no {RESULTS}; `attsvm reproduce --out {folder}` writes it")
    try:
        records = parse_json(file.read_text("utf-8"))
    except ValueError as error:
        raise BadTokens(f"{file} cannot be read ({error}); `attsvm report` rewrites it") from error
    if not isinstance(records, list) or not all(isinstance(r, dict) and "id" in r for r in records):
        raise BadTokens(f"{file} is not a list of records; `attsvm report` rewrites it")
    return records


def write_report(folder: str | Path) -> Path:
    """Write DIR/report.html from what is on file; return the file."""
    place = Path(folder)
    html = render_report(place, read_results(place))
    with writing_to(place):
        write_text(place / PAGE, html)
    return place / PAGE


def render_report(folder: Path, records: list[Record]) -> str:
    """The HTML of the page for these records, in their order."""
    counts = Counter(str(record["verdict"]) for record in records)
    shown = [*VERDICTS, *(["measured"] if counts["measured"] else [])]
    said = ", ".join(f"{counts[v]} {verdict_for(v, counts[v])}" for v in shown if counts[v])
    most = min(LARGEST, FIGURES // max(len(records), 1))
    quick = sum(bool(record.get("quick")) for record in records)
    times = [r["seconds"] for r in records if isinstance(r.get("seconds"), int | float)]
    failing = [
        (title, listed)
        for ours, title in FAILING.items()
        if (listed := [r for r in records if r["verdict"] == "fails" and is_question(r) == ours])
    ]
    return render(
        "attsvm.experiments.templates", "report.html",
        title=f"attsvm: {many(len(records))}, {said or 'none run'}",
        heading="What attention selects: the papers' statements, tested",
        description=f"{many(len(records))} of attention: {said}",
        skip=("studies", "the studies"),
        records=records, papers=list(dict.fromkeys(str(record["paper"]) for record in records)),
        counts=counts, verdicts=shown, marks=MARKS, sources=SOURCES, meaning=MEANING, lead=LEAD,
        failing=failing, papers_known=PAPERS, paper_title=paper_title,
        kinds=list(dict.fromkeys(kind_words(record) for record in records)),
        size="small counts (quick)" if quick == len(records) else "full size" if not quick else
        f"{quick} of {len(records)} quick",
        total=float(sum(times)), version=__version__,
        versions=", ".join(sorted({str(r.get("version", "")) for r in records} - {""})),
        count_of=lambda paper: Counter(r["verdict"] for r in records if r["paper"] == paper),
        picture_of=lambda record: picture(
            folder / "figures", record["id"], f"{record['title']}: {record['verdict']}", most
        ),
        style_of=lambda verdict: str(verdict).split()[0],
        many=lambda count, noun: many(count) if noun == "study" else f"{count:,} {noun}s",
        verdict_for=verdict_for, failing_words=failing_words, kind_words=kind_words,
        is_different=is_different, judged_words=judged_words,
        search_words=lambda record: " ".join(str(record.get(n, "")) for n in _SEARCHED).lower(),
        facts=_facts, rerun_command=rerun_command,
        config_of=lambda record: "\n".join(
            f"{name} = {json.dumps(record[name], ensure_ascii=False)}"
            for name in ("seeds", "first", "grid", "run", "thresholds") if record.get(name)
        ),
        met_words=lambda met: {True: "met", False: "not met"}.get(met, "reported"),
        met_style=lambda met: {True: "holds", False: "fails"}.get(met, "noted"),
    )  # fmt: skip


# ---------------------------------------------------------------- words


def many(count: int) -> str:
    """A count of studies.

    >>> many(1), many(57)
    ('1 study', '57 studies')
    """
    return "1 study" if count == 1 else f"{count:,} studies"


def paper_title(letter: str) -> str:
    """The paper's title for its letter; other words of an id are titles of their own."""
    source = REFERENCES.get(PAPERS.get(letter, ""))
    titles = {"E": "Neighbours", "beyond": "Beyond the papers", "sweep": "Sweeps"}
    return source.title if source else titles.get(letter, letter)


def is_question(record: Mapping[str, Any]) -> bool:
    """Whether a study is a question of ours, so that no paper is at fault where it fails."""
    return record.get("kind") == "question"


def is_different(record: Mapping[str, Any]) -> bool:
    """Whether it holds, or fails, in another way than what is published."""
    return bool(record.get("differs")) and record["verdict"] in ("holds", "fails")


def verdict_for(verdict: str, count: int) -> str:
    """The verdict of so many studies.

    >>> verdict_for("holds", 1), verdict_for("holds", 57), verdict_for("undecided", 2)
    ('holds', 'hold', 'undecided')
    """
    return verdict if count == 1 else {"holds": "hold", "fails": "fail"}.get(verdict, verdict)


def failing_words(records: Iterable[Mapping[str, Any]]) -> str:
    """How many of the failing studies are statements of papers, how many questions; or nothing."""
    fails = [is_question(record) for record in records if record["verdict"] == "fails"]
    if not fails:
        return ""
    return (
        f" (of those that fail, {len(fails) - sum(fails)} from papers and {sum(fails)} of our own "
        "questions)"
    )


def kind_words(record: Mapping[str, Any]) -> str:
    """What is judged: a theorem from memory is a statement under test."""
    kind = str(record.get("kind", ""))
    return "statement" if kind == "theorem" and record.get("source") == "from memory" else kind


def proof_words(record: Record) -> str:
    """How well the solutions that the study uses are certified."""
    gap = record.get("gap")
    if not isinstance(gap, int | float) or not math.isfinite(gap):
        return "not certified"
    return f"certified gap at most {gap:.1e}" if gap else "no solution is used"


def judged_words(record: Record) -> str:
    """The study, its verdict and its certified gap, in one line."""
    return f"{record['id']} · {record['verdict']} · {proof_words(record)}"


def rerun_command(record: Record) -> str:
    """The command that runs the study of a record again."""
    source = str(record.get("from") or "")
    quick = " --quick" if record.get("quick") else ""
    if source.endswith(".toml") or source.startswith("sweep "):
        return f"attsvm sweep {source.removeprefix('sweep ')}{quick}"
    return f"attsvm reproduce {source or record['id']}{quick}"


def _facts(record: Record) -> list[tuple[str, Any]]:
    """Premises, what kind of statement it is, where it comes from, how well it is certified."""
    source = REFERENCES.get(str(record.get("reference")))
    kind = str(record.get("kind", ""))
    return [
        ("Premises", record.get("premises")),
        ("Instances judged", f"{record.get('judged', 0):,}"),
        ("Solutions", proof_words(record)),
        ("Kind", KINDS.get(kind, kind)),
        ("Source", SOURCES.get(str(record.get("source")), "")),
        ("Paper", f"{source.authors} ({source.year}), {source.title}" if source else ""),
        ("In the paper", record.get("theorem")),
        ("Size", record.get("size")),
    ]
