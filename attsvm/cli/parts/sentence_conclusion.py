"""The conclusion of `sentences`: two plain sentences on a report."""

from __future__ import annotations

from typing import Any


def conclusion(report: dict[str, Any]) -> str:
    """How much is realizable; what training will learn, and where it is silent."""
    return f"{_realizable(report)} {_learnt(report)}"


def _realizable(report: dict[str, Any]) -> str:
    total, good = report["sentences"], report["explained"]
    if not total:
        return "There is no sentence here, only collocations, which say who follows whom."
    if report["faults"]["no-collocations"]:
        return (
            "Whether the text is realizable cannot be said: no token has a known follower, which "
            "--collocations bigrams takes from the text itself."
        )
    if report["status"] == "realizable":
        return (
            f"All of the {many(total, 'sentence')} {are(total)} realizable: each label follows "
            "exactly one token of its sentence, and one order of tokens per query explains them."
        )
    none, rest = report["without_optimal"], total - good - report["without_optimal"]
    said = [
        f"in {none} it follows none of them" if none else "",
        f"in {rest} it follows several, or others of the same query contradict it" if rest else "",
        "but some tokens follow more than one other" if not (none or rest) else "",
    ]
    return (
        f"{good} of {many(total, 'sentence')} ({100 * good / total:.0f} %) {are(good)} realizable: "
        "the label follows exactly one of the tokens before it, without contradiction; "
        f"{', '.join(filter(None, said))}."
    )


def _learnt(report: dict[str, Any]) -> str:
    ordered, queries = report["ordered_queries"], report["queries"]
    if not ordered:
        return "Training attention would learn nothing: no sentence puts one token above another."
    if report["status"] == "realizable":
        start = f"Training will learn, for {ordered} of {many(queries, 'query')},"
    else:
        start = (
            "Trained with --ties, attention should learn (no theorem covers the whole text), for "
            f"{ordered} of {many(queries, 'query')},"
        )
    learnt = f"{start} which tokens to look at first"
    seen = report["solved"]["coverage"]
    if seen is None:
        return f"{learnt}, and it is silent on sentences whose best tokens are in no order."
    share = 100 * seen["decided"]
    return (
        f"{learnt}; of all sentences of 2 to {seen['length']} tokens that end in a query of this "
        f"text it decides {share:.1f} % and is silent on {100 - share:.1f} %, where the best "
        "tokens tie."
    )


def many(number: int, noun: str) -> str:
    """'1 sentence', '2 queries'."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun[:-1]}ies" if noun.endswith("y") else f"{number} {noun}s"


def are(number: int) -> str:
    """'is' of one, 'are' of others."""
    return "is" if number == 1 else "are"
