"""Tables of claims for pages in Markdown: all that exist, and their verdicts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from attsvm.errors import BadTokens
from attsvm.experiments.reproduce.folder import Record
from attsvm.experiments.reproduce.page.claim import (
    KINDS,
    TRUST,
    VERDICTS,
    failing_words,
    is_different,
    kind_words,
    verdict_for,
)
from attsvm.experiments.reproduce.page.document import PAPERS, paper_title

BEGIN, END = "<!-- claims -->", "<!-- /claims -->"
_BETWEEN = re.compile(f"{BEGIN}\n.*?{END}", re.S)

# How a saved result is checked.
_TRUSTED = (
    "`attsvm reproduce --audit --out DIR` draws a tenth of the claims of a folder at random",
    "(`--share`, `--seed`), runs them again with their recorded config and compares the verdict",
    "and every number, within 1e-6 relative to the larger one. What differs is named, and the",
    "exit code is 5. On another processor, sums in another order change last digits, which grow",
    "in mirror descent, in runs on factors and in networks: there a number may differ by more.",
)


class StatedClaim(Protocol):
    """What a claim says of itself."""

    @property
    def id(self) -> str: ...
    @property
    def real(self) -> bool: ...
    @property
    def paper(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def trust(self) -> str: ...
    @property
    def statement(self) -> str: ...
    @property
    def differs(self) -> str: ...
    @property
    def numbered(self) -> str: ...
    @property
    def size(self) -> str: ...


def claims_page(claims: Iterable[StatedClaim]) -> str:
    """The page docs/claims.md: every claim, its kind, number, size and source, what it says."""
    listed = list(claims)
    lines = [
        "# The claims",
        "",
        f"{len(listed)} statements, each run, judged from what was saved, and drawn by",
        "`attsvm reproduce`. This page is written by `make docs` from the registry.",
        *_real(sum(claim.real for claim in listed)),
        "",
        *_TRUSTED,
        "",
        *(f"- **{kind}**: {words.partition(': ')[2]}" for kind, words in KINDS.items()),
        "- **statement**: a theorem that is only recalled; it is under test, wording and all.",
        "",
        "The source of a statement:",
        "",
        *(f"- **{mark}**: {words}" for mark, words in TRUST.items()),
        "",
        "'In the paper' names the theorem, lemma or figure where its number is known; 'v1', 'v2'",
        "are arXiv versions, of paper B and of paper D, and others may number otherwise. 'Size'",
        "compares the full run of a figure with the published one: where it is smaller and its",
        "numbers are not met, the verdict is 'not reproduced at this size', and never 'fails'.",
    ]
    for paper in dict.fromkeys(claim.paper for claim in listed):
        key = f" [{PAPERS[paper]}]" if paper in PAPERS else ""
        letter = f"{paper}: " if paper in PAPERS else ""
        lines += ["", f"## {letter}{paper_title(paper)}{key}", ""]
        lines += ["| claim | kind | in the paper | size | source | statement |"]
        lines += ["|---|---|---|---|---|---|"]
        for claim in (claim for claim in listed if claim.paper == paper):
            said = cell(claim.statement)
            said += " *Real data.*" if claim.real else ""
            said += " *Differs from what is published.*" if claim.differs else ""
            kind = kind_words({"kind": claim.kind, "trust": claim.trust})
            about = " | ".join((kind, cell(claim.numbered), cell(claim.size), claim.trust))
            lines.append(f"| `{claim.id}` | {about} | {said} |")
    return "\n".join(lines) + "\n"


def _real(count: int) -> list[str]:
    """How the claims on real data are run, where there are some."""
    if not count:
        return []
    return [
        f"{count} of them, marked *real data*, need torch or data sets and are run apart, by",
        "`attsvm reproduce --real` ([real-data.md](real-data.md)).",
    ]


def verdict_table(records: Iterable[Record]) -> str:
    """A table of the records: claim, title, kind, number, size, trust and verdict.

    Above it the counts.
    """
    listed = list(records)
    count = {v: sum(record["verdict"] == v for record in listed) for v in VERDICTS}
    said = ", ".join(f"{count[v]} {verdict_for(v, count[v])}" for v in VERDICTS if count[v])
    lines = [
        f"{len(listed)} claims: {said}{failing_words(listed)}.",
        "",
        "| claim | title | kind | in the paper | size | source | verdict |",
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    for record in listed:
        differs = ", differs from what is published" if is_different(record) else ""
        lines.append(
            f"| `{cell(record['id'])}` | {cell(record['title'])} | {cell(kind_words(record))} "
            f"| {cell(record.get('numbered', ''))} | {cell(record.get('size', ''))} "
            f"| {cell(record.get('trust', ''))} | {cell(record['verdict'])}{differs} |"
        )
    return "\n".join(lines) + "\n"


def with_table(page: str, table: str) -> str:
    """The page with this table between its two marks."""
    if not _BETWEEN.search(page):
        raise BadTokens(f"the page has no lines {BEGIN} and {END} to put the table between")
    return _BETWEEN.sub(lambda _: f"{BEGIN}\n{table}{END}", page)


def table_ids(page: str) -> list[str]:
    """The claims that the table between the marks names; none when there are no marks."""
    found = _BETWEEN.search(page)
    return re.findall(r"^\| `([^`]+)` \|", found[0], re.M) if found else []


def cell(value: object) -> str:
    """Text for one cell of a table: one line, and nothing in it that ends the cell or is markup."""
    plain = " ".join(str(value).split())
    for sign, safe in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;"), ("*", "\\*"), ("_", "\\_")):
        plain = plain.replace(sign, safe)
    return plain
