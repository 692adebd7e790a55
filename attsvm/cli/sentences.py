"""sentences: whether a text is realizable, what training learns of it, and where it tends to."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from attsvm._utils.progress import working
from attsvm.cli.options import command
from attsvm.cli.output import emit, facts, many, rows
from attsvm.errors import BadTokens

# What a reader is shown at most; --json has more.
_LEVEL = 12
_REASONS = 5  # of each kind
_QUERIES = 15
_LETTERS = 30  # of a word in a table


@command("text.txt --prose --lower --json")
def sentences_command(
    file: Path,
    collocations: str | None = None,
    vocabulary: int | None = None,
    limit: int | None = None,
    prose: bool = False,
    lower: bool = False,
    strip_punctuation: bool = False,
    shortest: int | None = None,
    query: str | None = None,
    json_: bool = False,
) -> None:
    """Whether sentences are realizable, and the order of tokens that training learns by query.

    Arguments
    ---------
    file : FILE
        Text file, one sentence per line, its label last; or --prose.

    What is shown
    -------------
    query : TOKEN
        Show the order of this token in full.

    """
    from attsvm.next_token.order import orders
    from attsvm.next_token.report import describe_sentences
    from attsvm.next_token.text import read_sentences

    start = time.perf_counter()
    with working(f"reading {file.name}"):
        data = read_sentences(
            file,
            collocations=collocations,
            vocabulary=vocabulary,
            limit=limit,
            prose=prose,
            lower=lower,
            strip=strip_punctuation,
            shortest=shortest,
        )
    with working(f"comparing the tokens of {data.size} sentences"):
        every = orders(data)
        token = None if query is None else _find_query(query, data, every)
    with working(f"solving the problems of {len(every)} queries"):
        report = describe_sentences(data, every, query=token)
    report = {
        "file": str(file),
        **report,
        "conclusion": conclude(report),
        "seconds": time.perf_counter() - start,
    }
    emit(report, json_, *([] if json_ else _show(report)))


def _find_query(word: str, data: Any, every: Any) -> int:
    """The token number of a query; raises BadTokens unless it is one."""
    if data.names is not None:
        token = data.names.index(word) if word in data.names else -1
    else:
        token = int(word) if word.isdecimal() and len(word) < 19 else -1
    if token not in every:
        some = ", ".join(cut(data.word(q)) for q in list(every)[:8])
        more = ", …" if len(every) > 8 else ""
        raise BadTokens(
            f"--query {word!r} is the query of no sentence; queries are {some or 'none'}{more}"
        )
    return int(token)


def _show(report: dict[str, Any]) -> list[Any]:
    """The texts and tables of the report."""
    from attsvm.next_token.order import KINDS

    heads = ("query", "sentences", "tokens", "edges", "covers", *KINDS[:3], "chain")
    name = plain(Path(report["file"]).name)
    shown: list[Any] = [facts(f"sentences of {name}", _facts(report))]
    for kind, number in report["faults"].items():
        reasons = [one["message"] for one in report["reasons"] if one["kind"] == kind]
        shown += [f"{kind}: {plain(message)}" for message in reasons[:_REASONS]]
        shown += [f"{kind}: {number - _REASONS} more"] if number > _REASONS else []
    orders = report["orders"]
    largest = orders if len(orders) <= _QUERIES else sorted(orders, key=lambda o: -o["tokens"])
    if orders:
        body = [[cut(str(order[head])) for head in heads] for order in largest[:_QUERIES]]
        shown.append(rows([heads[0], *(f">{head}" for head in heads[1:])], body))
    if len(orders) > _QUERIES:
        shown.append(
            f"the {_QUERIES} queries with most tokens of {len(orders)}: --json lists all, --query "
            "shows one"
        )
    for chain in [chain for order in orders for chain in order.get("chains", [])]:
        steps = [plain(s[0]) if len(s) == 1 else f"{{{plain(' = '.join(s))}}}" for s in chain]
        shown.append(" > ".join(steps))
    for u, words in group_levels(report["solved"]["column"] or {}):
        more = f" and {len(words) - _LEVEL} more" if len(words) > _LEVEL else ""
        shown.append(f"{u:9.5f}  {', '.join(cut(word) for word in words[:_LEVEL])}{more}")
    return [*shown, f"\nConclusion: {report['conclusion']}", "The terms: docs/glossary.md"]


def _facts(report: dict[str, Any]) -> dict[str, Any]:
    """The file and what was found, a line each."""
    shown = {
        "sentences": f"{report['sentences']} ({report['distinct']} distinct)",
        "vocabulary": report["vocabulary"],
        "collocations": report["collocations"],
        "queries": report["queries"],
        "left out": ", ".join(f"{n} {what}" for what, n in report["left_out"].items() if n) or None,
    }
    shown["realizable"] = _say_realizable(report)
    shown["tokens by query"] = ", ".join(f"{n} {kind}" for kind, n in report["kinds"].items())
    rare, lacking = report["exceptions"], report["unclosed"]
    shown["optimal tokens occur most"] = (
        f"no: a non-optimal one occurs more in {many(rare, 'sentence')}" if rare else "yes"
    )
    prefixes = f"{many(lacking, 'sentence')} without a prefix" if lacking else "prefix-closed"
    inside = "outside" if report["outside"] or lacking else "inside"
    shown["paper's premises"] = "; ".join([inside, *report["outside"], prefixes])
    solved = report["solved"]
    for name, matrix in (("attention", "W_kq"), ("decoder", "W_ov")):
        if solved[name] is not None:
            shown[f"{name} {matrix}"] = solved[name]["message"]
    if (finite := solved["finite"])["components"]:
        shown["finite part"] = (
            f"log-odds up to {finite['largest']:.4g} inside ties; the loss of "
            f"{finite['sentences']} sentences with one optimal token tends to "
            f"{finite['infimum']:.6g} (entropy {finite['entropy']:.6g})"
        )
    return shown


def _say_realizable(report: dict[str, Any]) -> str:
    """'yes', or how many faults of each kind there are."""
    faults = ", ".join(f"{n} {kind}" for kind, n in report["faults"].items() if n)
    return f"no: {faults}" if faults else "yes"


def conclude(report: dict[str, Any]) -> str:
    """Two sentences: how much is realizable; what training will learn, and what stays undecided."""
    total, good = report["sentences"], report["explained"]
    if not total:
        first = "There is no sentence here, only collocations."
    elif report["faults"]["no-collocations"]:
        first = "No token has a known follower: --collocations bigrams takes them from the text."
    elif report["status"] == "realizable":
        first = f"All of {many(total, 'sentence')} can be realized at once."
    else:
        none = report["without_optimal"]
        first = (
            f"{good} of {many(total, 'sentence')} ({100 * good / total:.0f} %) can be realized at "
            f"once; of the others, the label of {none} follows no token of the sentence, and "
            f"{total - good - none} contradict others."
        )
    if not report["ordered_queries"]:
        return f"{first} Training attention learns nothing: no token is above another."
    ties = "" if report["status"] == "realizable" else "With train --ties, "
    second = (
        f"{ties}attention learns an order of tokens for {report['ordered_queries']} of "
        f"{many(report['queries'], 'query')}"
    )
    return f"{first} {second[0].upper()}{second[1:]}."


def group_levels(column: dict[str, float]) -> list[tuple[float, list[str]]]:
    """(u, its words) for each different u of a column, from the top; equal to nine digits."""
    found: list[tuple[float, list[str]]] = []
    for word, u in column.items():
        if not found or found[-1][0] - u > 1e-9:
            found.append((u, []))
        found[-1][1].append(word)
    return found


def cut(word: str) -> str:
    """A word for a table, shortened."""
    return plain(word if len(word) <= _LETTERS else f"{word[: _LETTERS - 1]}…")


def plain(text: str) -> str:
    """The text with escapes for what a terminal would obey or cannot show."""
    safe = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )
    encoding = sys.stdout.encoding or "utf-8"
    return safe.encode(encoding, "backslashreplace").decode(encoding)
