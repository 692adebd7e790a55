"""sentences: whether a text is realizable, what training learns of it, and where it tends to."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from attsvm._utils.expected import escaped
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
    shown: list[Any] = [facts(f"sentences of {Path(report['file']).name}", _facts(report))]
    for kind, number in report["faults"].items():
        reasons = [one["message"] for one in report["reasons"] if one["kind"] == kind]
        shown += [f"{kind}: {message}" for message in reasons[:_REASONS]]
        shown += [f"{kind}: {number - _REASONS} more"] if number > _REASONS else []
    orders = sorted(report["orders"], key=lambda order: -order["tokens"])
    if orders:
        body = [[cut(str(order[head])) for head in heads] for order in orders[:_QUERIES]]
        shown.append(rows([heads[0], *(f">{head}" for head in heads[1:])], body))
    if len(orders) > _QUERIES:
        shown.append(f"{len(orders) - _QUERIES} more queries: --json lists all, --query shows one")
    for chain in [chain for order in orders for chain in order.get("chains", [])]:
        steps = [s[0] if len(s) == 1 else f"{{{' = '.join(s)}}}" for s in chain]
        shown.append(escaped(" > ".join(steps)))
    column = list((report["solved"]["column"] or {}).items())
    shown += [f"{u:9.5f}  {cut(word)}" for word, u in column[:_LEVEL]]
    shown += [f"{len(column) - _LEVEL} more: --json lists all"] if len(column) > _LEVEL else []
    return [*shown, f"\nConclusion: {report['conclusion']}", "The terms: docs/glossary.md"]


def _facts(report: dict[str, Any]) -> dict[str, Any]:
    """The file and what was found, a line each."""
    kinds, left_out = report["kinds"], report["left_out"]
    faults = ", ".join(f"{n} {kind}" for kind, n in report["faults"].items() if n)
    lacking, solved = report["unclosed"], report["solved"]
    prefixes = f"{many(lacking, 'sentence')} without a prefix" if lacking else "prefix-closed"
    inside = "outside" if report["outside"] or lacking else "inside"
    finite = solved["finite"]
    return {
        "sentences": f"{report['sentences']} ({report['distinct']} distinct)",
        "vocabulary": report["vocabulary"],
        "collocations": report["collocations"],
        "queries": report["queries"],
        "left out": ", ".join(f"{n} {what}" for what, n in left_out.items() if n) or None,
        "realizable": f"no: {faults}" if faults else "yes",
        "tokens by query": ", ".join(f"{n} {kind}" for kind, n in kinds.items()),
        "paper's premises": "; ".join([inside, *report["outside"], prefixes]),
        **{
            f"{name} {matrix}": solved[name] and solved[name]["message"]
            for name, matrix in (("attention", "W_kq"), ("decoder", "W_ov"))
        },
        "infimum": f"{finite['infimum']:.6g} (entropy {finite['entropy']:.6g})"
        if finite["components"]
        else None,
    }


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
    ties = "Attention" if report["status"] == "realizable" else "With train --ties, attention"
    return (
        f"{first} {ties} learns an order of tokens for {report['ordered_queries']} of "
        f"{many(report['queries'], 'query')}."
    )


def cut(word: str) -> str:
    """A word for a table, shortened."""
    return escaped(word if len(word) <= _LETTERS else f"{word[: _LETTERS - 1]}…")
