"""Tables of claims for pages in Markdown: all that exist, and their verdicts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from attsvm.errors import BadTokens
from attsvm.reproduce.folder import Record
from attsvm.reproduce.page.claim import KINDS, TRUST, VERDICTS, kind_words
from attsvm.reproduce.page.document import PAPERS, paper_title

BEGIN, END = "<!-- claims -->", "<!-- /claims -->"
_BETWEEN = re.compile(f"{BEGIN}\n.*?{END}", re.S)

# How far a saved result is believed.
_TRUSTED = (
    "A saved result is not believed. `attsvm report DIR --judge` compares every array with its",
    "digest, draws the instances again, takes the last step of every run again from the record",
    "before it, certifies every solution again and solves again for those that prove nothing;",
    "only then is the claim checked. It runs no instance. `attsvm reproduce --audit --out DIR`",
    "also runs a random tenth of every claim's instances again from their seeds (`--share`,",
    "`--seed`) and compares all their records, so that a result invented whole, digests and",
    "all, is noticed. The two agree to 1e-4 of the largest entry, to 1e-2 for searches and",
    "mirror descent, to 5e-2 for factors and for rules and heads that leap (sign, spectral,",
    "ReLU), and to 1e-1 for networks trained on real data;",
    "on one processor they are nearly always equal. What does not fit is named, and the exit",
    "code is 5.",
)


class Stated(Protocol):
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


def claims_page(claims: Iterable[Stated]) -> str:
    """The page docs/claims.md: every claim, its kind, where it is from, what it says."""
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
        "Where a statement is known from:",
        "",
        *(f"- **{mark}**: {words}" for mark, words in TRUST.items()),
    ]
    for paper in dict.fromkeys(claim.paper for claim in listed):
        key = f" [{PAPERS[paper]}]" if paper in PAPERS else ""
        letter = f"{paper}: " if paper in PAPERS else ""
        lines += ["", f"## {letter}{paper_title(paper)}{key}", ""]
        lines += ["| claim | kind | known from | statement |", "|---|---|---|---|"]
        for claim in (claim for claim in listed if claim.paper == paper):
            said = cell(claim.statement)
            said += " *Real data.*" if claim.real else ""
            said += " *Differs from what is published.*" if claim.differs else ""
            kind = kind_words({"kind": claim.kind, "trust": claim.trust})
            lines.append(f"| `{claim.id}` | {kind} | {claim.trust} | {said} |")
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
    """A table of the records: claim, title, kind, trust and verdict; above it the counts."""
    listed = list(records)
    count = {v: sum(record["verdict"] == v for record in listed) for v in VERDICTS}
    said = ", ".join(f"{count[v]} {v}" for v in VERDICTS if count[v])
    lines = [
        f"{len(listed)} claims: {said}.",
        "",
        "| claim | title | kind | known from | verdict |",
    ]
    lines += ["|---|---|---|---|---|"]
    for record in listed:
        differs = ", differs from what is published" if record.get("differs") else ""
        lines.append(
            f"| `{cell(record['id'])}` | {cell(record['title'])} | {cell(kind_words(record))} "
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
