"""One claim on the page: picture, statement, numbers, premises, and how to run it again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from attsvm._utils.files import parse_json
from attsvm.experiments.reproduce.folder import Record, judged_words, proof_words, rerun_command
from attsvm.experiments.reproduce.page.figure import LARGEST, picture
from attsvm.experiments.studies.claim import Verdict
from attsvm.plotting.html.shell import script_json, text
from attsvm.references import REFERENCES

VERDICTS: tuple[str, ...] = get_args(Verdict)
# Shape and word beside the colour, which not everybody sees.
MARKS = {"holds": "✓", "fails": "✗", "not reproduced at this size": "≠", "undecided": "?"}

KINDS = {
    "theorem": "Theorem: judged only on instances inside its premises.",
    "figure": "Figure: the published experiment, run again.",
    "question": "Question: our own, unpublished or left open by a paper; "
    "no paper is at fault where the answer is no.",
}
TRUST = {
    "read": "The statement was read in the paper, its abstract, a caption or its slides.",
    "code": "The statement is what the authors' released code does.",
    "image": "The statement was read off the published picture.",
    "as recalled": "The statement is given as recalled; it was not read again.",
    "derived": "The statement follows from the definitions.",
    "measured": "The statement is believed on other grounds and measured here.",
}


# What the first screen of a page says: what this is, what the words mean, and what a failure is.
LEAD = (
    "attsvm trains one-layer attention exactly, solves with a certificate the max-margin problem "
    "that theory names as its limit, and puts the statements of four papers, and questions of its "
    "own, to the test on fresh data."
)
MEANING = {
    "holds": "every number asked of it, fixed before the run, is met on instances inside its "
    "premises.",
    "fails": "one of them is not met. That is a finding about a statement, not a fault of the run.",
    "not reproduced at this size": "the numbers of a published figure are not met in a run that is "
    "smaller than the published one. That does not say that the figure is wrong.",
    "undecided": "no instance is inside its premises or in the published parameterization, it "
    "could not be run, or its numbers are not met and the statement is from memory.",
    "differs": "it holds, or fails, in another way than what is published.",
}
KNOWN_FROM = (
    "What a statement is known from stands beside its verdict: one that is only recalled is a "
    "statement under test: it holds or is undecided, and is never said to fail."
)
# What fails is of two kinds.
FAILING = {False: "Statements of papers that fail", True: "Questions of ours, answered no"}


def is_question(record: Mapping[str, Any]) -> bool:
    """Whether a claim is a question of ours, so that no paper is at fault where it fails."""
    return record.get("kind") == "question"


def is_different(record: Mapping[str, Any]) -> bool:
    """Whether it holds, or fails, in another way than what is published."""
    return bool(record.get("differs")) and record["verdict"] in ("holds", "fails")


def verdict_for(verdict: str, count: int) -> str:
    """The verdict of so many claims.

    >>> verdict_for("holds", 1), verdict_for("holds", 57), verdict_for("undecided", 2)
    ('holds', 'hold', 'undecided')
    """
    return verdict if count == 1 else {"holds": "hold", "fails": "fail"}.get(verdict, verdict)


def failing_words(records: Iterable[Mapping[str, Any]]) -> str:
    """How many of the claims that fail are statements of papers, how many questions; or nothing."""
    fails = [is_question(record) for record in records if record["verdict"] == "fails"]
    if not fails:
        return ""
    return (
        f" (of those that fail, {len(fails) - sum(fails)} from papers and {sum(fails)} of our own "
        "questions)"
    )


def kind_words(record: Mapping[str, Any]) -> str:
    """What is judged: a theorem that is only recalled is a statement under test."""
    kind = str(record.get("kind", ""))
    return "statement" if kind == "theorem" and record.get("trust") == "as recalled" else kind


def badge(verdict: object) -> str:
    """The verdict as a coloured word with its mark."""
    known = str(verdict) if verdict in VERDICTS else "undecided"
    return (
        f'<span class="badge {style_of(known)}"><i aria-hidden="true">{MARKS[known]}</i> '
        f"{text(verdict)}</span>"
    )


def style_of(verdict: str) -> str:
    """The name of a verdict's style: one word."""
    return verdict.split()[0]


def seconds(value: object) -> str:
    """A time; the only part of the page that differs between two runs of the same code."""
    shown = f"{value:.1f} s" if isinstance(value, int | float) else "unknown time"
    return f'<span class="seconds">{shown}</span>'


def trust(record: Record) -> str:
    """What the statement is known from, as a small word that stands beside its verdict."""
    mark = str(record.get("trust", ""))
    said = TRUST.get(mark, "")
    return f'<span class="tag" title="{text(said)}">{text(mark)}</span>' if mark else ""


def article(
    folder: Path,
    record: Record,
    *,
    number: int,
    most: int = LARGEST,
) -> str:
    """The claim's part of the page.

    number: its place, which makes the names inside unique. most: characters of its picture, above
    which a shorter form is taken.
    """
    name, verdict = str(record["id"]), str(record["verdict"])
    described = f"{record['title']}: {verdict}"
    drawn = picture(folder, name, described=described, most=most)
    moving = _moving(folder, record, number)
    caption = f'<figcaption class="judged">{text(judged_words(record))}</figcaption>'
    parts = [
        f'<article class="claim{" moves" if moving else ""}" id="{text(name)}" '
        f'data-claim="{text(name)}" aria-labelledby="h{number}">',
        f'<header><h3 id="h{number}">{text(record["title"])}</h3>'
        f'<p class="verdict">{badge(verdict)} {trust(record)}</p></header>',
        f'<p class="id"><a href="#{text(name)}">{text(name)}</a> · {text(kind_words(record))}'
        f"{_beside(record)} · {seconds(record.get('seconds'))}</p>",
        f'<p class="statement">{text(record.get("statement", ""))}</p>',
        moving,
        f'<figure class="figure"><div class="scroll">{drawn}</div>{caption}</figure>',
        _reason(record),
        _differs(record),
        _numbers(record, number),
        _facts(record),
        f'<p class="again">Run it again: <code>{text(rerun_command(record))}'
        f"{' --quick' if record.get('quick') else ''}</code></p>",
        "</article>",
    ]
    return "\n".join(part for part in parts if part)


def _beside(record: Record) -> str:
    """Which theorem or figure it is, and of which size the run."""
    size = "quick run" if record.get("quick") else record.get("size")
    return "".join(f" · {text(part)}" for part in (record.get("numbered"), size) if part)


def _said(record: Record) -> str:
    """What a failing statement is, by what it is known from."""
    if is_question(record):
        return "What was asked"
    words = {
        "as recalled": "What is recalled",
        "derived": "What follows",
        "code": "What is released",
    }
    return words.get(str(record.get("trust")), "What was read")


def failure(record: Record) -> str:
    """What is said of a failing claim near the top: what was read, what was run, what was found."""
    name, mark = str(record["id"]), str(record.get("trust", ""))
    missed = "".join(
        f"<li>{text(row.get('what', ''))}: {figure(row.get('seen'))}, "
        f"asked {text(row.get('asked', ''))}</li>"
        for row in record.get("numbers") or []
        if row.get("met") is False
    )
    read = TRUST.get(mark, mark)
    size = "small counts (quick)" if record.get("quick") else "full size"
    facts = [
        (_said(record), f"{text(record.get('statement', ''))} <i>{text(read)}</i>"),
        ("What was run", f"{text(record.get('premises') or 'not known')}; {size}"),
        ("What was not met", f"<ul>{missed}</ul>" if missed else ""),
        ("What was found", text(record.get("reason") or "")),
    ]
    lines = "".join(f"<dt>{what}</dt><dd>{said}</dd>" for what, said in facts if said)
    smallest = (
        "<details><summary>The smallest instance, and how it differs from what is published"
        f"</summary><p>{text(record['differs'])}</p></details>"
        if record.get("differs")
        else ""
    )
    return (
        f'<li><p class="verdict"><a href="#{text(name)}">{text(name)}</a> '
        f"{badge(record['verdict'])} {trust(record)} {text(kind_words(record))}</p>"
        f'<dl class="facts">{lines}</dl>{smallest}</li>'
    )


def _reason(record: Record) -> str:
    if not record.get("reason"):
        return ""
    word = "Note" if record["verdict"] == "holds" else "Why"
    return f'<p class="reason"><strong>{word}:</strong> {text(record["reason"])}</p>'


def _differs(record: Record) -> str:
    if not record.get("differs"):
        return ""
    return (
        '<aside class="differs"><h4>Differs from what is published</h4>'
        f"<p>{text(record['differs'])}</p></aside>"
    )


def _numbers(record: Record, number: int) -> str:
    """The table of what was seen and what was asked."""
    rows = record.get("numbers") or []
    if not rows:
        return ""
    words = {True: "met", False: "not met", None: "noted"}
    kinds = {True: "holds", False: "fails", None: "noted"}
    lines = []
    for row in rows:
        met = row.get("met") if row.get("met") in (True, False) else None
        lines.append(
            f'<tr><th scope="row">{text(row.get("what", ""))}</th>'
            f'<td class="number">{figure(row.get("seen"))}</td>'
            f'<td class="asked">{text(row.get("asked", ""))}</td>'
            f'<td class="{kinds[met]}">{words[met]}</td></tr>'
        )
    return (
        f'<div class="scroll"><table class="numbers" aria-labelledby="h{number}">'
        '<thead><tr><th scope="col">What</th><th scope="col" class="number">Seen</th>'
        '<th scope="col">Asked</th><th scope="col">Verdict</th></tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def figure(value: object) -> str:
    """A number in at most six digits, with the whole of it on hover."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return text("not known" if value is None else value)
    short = f"{value:.6g}"
    return short if float(short) == value else f'<span title="{value!r}">{short}</span>'


def _facts(record: Record) -> str:
    """Premises, what kind of statement it is, where it comes from, and how surely it is proved."""
    source = REFERENCES.get(str(record.get("reference")))
    kind, mark = str(record.get("kind", "")), str(record.get("trust", ""))
    facts: list[tuple[str, Any]] = [
        ("Premises", record.get("premises")),
        ("Instances judged", record.get("judged")),
        ("Solutions", proof_words(record)),
        ("Kind", KINDS.get(kind, kind)),
        ("Trust", TRUST.get(mark, mark)),
        ("Source", f"{source.authors} ({source.year}), {source.title}" if source else ""),
        ("In the paper", record.get("numbered")),
        ("Size", record.get("size")),
    ]
    lines = "".join(
        f"<dt>{text(what)}</dt><dd>{text(value)}</dd>"
        for what, value in facts
        if value not in (None, "")
    )
    config = text(json.dumps(record["config"], ensure_ascii=False))
    return (
        f'<dl class="facts">{lines}</dl><details><summary>Configuration '
        f"{text(record.get('hash', ''))}, attsvm {text(record.get('version', ''))}</summary>"
        f"<pre>{config}</pre></details>"
    )


def _moving(folder: Path, record: Record, number: int) -> str:
    """The moving picture's place and its data, and the way to the still one; nothing without it."""
    file = folder / "claims" / f"{record['id']}.motion.json"
    if not file.exists():
        return ""
    try:
        motion = parse_json(file.read_text("utf-8"))
    except ValueError:
        return ""  # the still picture is shown
    if not isinstance(motion, dict) or not motion.get("steps"):
        return ""
    data = script_json(motion)
    return (
        f'<figure class="moving" data-motion="m{number}"><figcaption>'
        f"<b>{text(motion.get('title', ''))}</b> "
        f'<span class="judged">{text(judged_words(record))}</span></figcaption></figure>'
        '<p class="control"><button type="button" class="still" aria-pressed="false">'
        "Still picture, all panels</button></p>"
        f'<script type="application/json" id="m{number}">{data}</script>'
    )
