"""The report of `sentences` for a reader."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from attsvm.next_token.order import KINDS

# What a reader is shown at most; --json has more.
_LEVEL = 12
_REASONS = 5  # of each kind
_QUERIES = 15
_LETTERS = 30  # of a word in a table
# The faults that --ties allows: counted, not told.
_TIES = ("contradiction", "cycle")
_HEADS = ("query", "sentences", "tokens", "edges", "covers", *KINDS[:3], "chain")


def show_sentences(report: dict[str, Any]) -> None:
    """Print the report for a reader."""
    console = Console(markup=False, highlight=False)
    console.print(_table(report))
    for kind, number in report["faults"].items():
        if report["ties"] is not None and kind in _TIES:
            continue
        told = [reason["message"] for reason in report["reasons"] if reason["kind"] == kind]
        for message in told[:_REASONS]:
            console.print(f"{kind}: {_plain(message)}", soft_wrap=True)
        if number > _REASONS:
            console.print(f"{kind}: {number - _REASONS} more", soft_wrap=True)
    rows = report["orders"]
    table = Table(box=None, pad_edge=False)
    for head in _HEADS:
        table.add_column(head, justify="left" if head == "query" else "right")
    largest = rows if len(rows) <= _QUERIES else sorted(rows, key=lambda row: -row["tokens"])
    for row in largest[:_QUERIES]:
        table.add_row(*(cut(str(row[head])) for head in _HEADS))
    if rows:
        console.print(table)
    if len(rows) > _QUERIES:
        console.print(
            f"the {_QUERIES} queries with most tokens of {len(rows)}: --json lists all, --query "
            "shows one",
            soft_wrap=True,
        )
    for chain in [chain for row in rows for chain in row.get("chains", [])]:
        steps = [_plain(s[0]) if len(s) == 1 else f"{{{_plain(' = '.join(s))}}}" for s in chain]
        console.print(" > ".join(steps), soft_wrap=True)
    for u, words in levels(report["solved"]["column"] or {}):
        more = f" and {len(words) - _LEVEL} more" if len(words) > _LEVEL else ""
        some = ", ".join(cut(word) for word in words[:_LEVEL])
        console.print(f"{u:9.5f}  {some}{more}", soft_wrap=True)
    if report["figure"] is not None:
        console.print(f"figure: {_plain(report['figure'])}", soft_wrap=True)
    console.print(f"\nConclusion: {report['conclusion']}")
    console.print("What the words mean: docs/glossary.md", style="dim")


def _table(report: dict[str, Any]) -> Table:
    """The file and what was found, a line each."""
    table = Table(title=f"sentences of {_plain(Path(report['file']).name)}", show_header=False)
    table.add_row("sentences", f"{report['sentences']} ({report['distinct']} distinct)")
    table.add_row("vocabulary", str(report["vocabulary"]))
    made = "" if report["followers"] == "written" else f" ({report['followers']})"
    table.add_row("collocations", f"{report['collocations']}{made}")
    table.add_row("queries", str(report["queries"]))
    if report["skipped"]:
        table.add_row("skipped", f"{report['skipped']} too short")
    left = report["left_out"]
    if any(left.values()):
        table.add_row(
            "left out",
            f"{left['words']} words ({left['tokens']} times), {left['lines']} lines, "
            f"{left['collocations']} collocations",
        )
    faults = ", ".join(f"{n} {kind}" for kind, n in report["faults"].items() if n)
    table.add_row("realizable", f"no: {faults}" if faults else "yes")
    table.add_row("tokens by query", ", ".join(f"{n} {k}" for k, n in report["kinds"].items()))
    rare = report["exceptions"]
    table.add_row(
        "optimal tokens occur most",
        "yes" if report["dominant"] else f"no: a non-optimal one occurs more in {rare} sentences",
    )
    lacking = report["unclosed"]
    table.add_row(
        "paper's premises",
        "; ".join(
            [
                "outside" if report["outside"] or lacking else "inside",
                *report["outside"],
                f"{lacking} sentences lack a prefix" if lacking else "closed under prefixes",
            ]
        ),
    )
    ties = report["ties"]
    if ties is not None:
        table.add_row(
            "ties",
            f"{ties['contexts']} contexts with several labels; {ties['queries']} queries with "
            f"cycles; {ties['tied_tokens']} tokens in {ties['tied_components']} tied components "
            f"(largest {ties['largest']}) of {ties['components']}",
        )
    found = report["solved"]
    for name, matrix in (("attention", "W_kq"), ("decoder", "W_ov")):
        if found[name] is not None:
            table.add_row(f"{name} {matrix}", found[name]["message"])
    seen = found["coverage"]
    if seen is not None:
        table.add_row(
            "generalizes",
            f"all sentences of 2 to {seen['length']} tokens with a query of the data: the solution "
            f"decides {100 * seen['decided']:.1f} % ({100 * seen['wide']:.1f} % with a gap of "
            f"{seen['gap']:g} or more), the orders alone {100 * seen['ordered']:.1f} %; the rest "
            "are ties",
        )
    if found["finite"]["components"]:
        table.add_row(
            "finite part",
            f"log-odds up to {found['finite']['largest']:.4g} inside ties; the loss of "
            f"{found['finite']['sentences']} sentences with one optimal token tends to "
            f"{found['finite']['infimum']:.6g} (entropy {found['finite']['entropy']:.6g})",
        )
    return table


def levels(column: dict[str, float]) -> list[tuple[float, list[str]]]:
    """(u, its words) for each different u of a column, from the top; equal to nine digits."""
    found: list[tuple[float, list[str]]] = []
    for word, u in column.items():
        if not found or found[-1][0] - u > 1e-9:
            found.append((u, []))
        found[-1][1].append(word)
    return found


def cut(word: str) -> str:
    """A word for a table, shortened."""
    return _plain(word if len(word) <= _LETTERS else f"{word[: _LETTERS - 1]}…")


def _plain(text: str) -> str:
    """The text with escapes for what a terminal would obey or cannot show."""
    safe = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )
    encoding = sys.stdout.encoding or "utf-8"
    return safe.encode(encoding, "backslashreplace").decode(encoding)
