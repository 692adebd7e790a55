"""The tables of docs/real-data.md: `python -m tests.experiments.reproduce.real_tables DIR` prints
them.

DIR is the folder of `attsvm reproduce --real`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from attsvm.experiments.reproduce.folder import read_results
from attsvm.experiments.studies import CLAIMS

Numbers = dict[str, float]
PAIRS = (("1.1", "2"), ("1.1", "2, embeddings 10 ×"), ("1.1", "AdamW"), ("1.1", "1.5"), ("3", "2"))
PUBLISHED = (0.99, 0.605, 0.47, 0.25, 0.21), (0.28, 1.62, 5.5, 7.13, 7.57)


def row(*cells: object) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def head(*cells: str) -> str:
    """The first two lines of a table."""
    return f"{row(*cells)}\n|{'---|' * len(cells)}"


def name(method: str) -> str:
    """A method as a reader sees it."""
    return method if method[0].isalpha() else f"p = {method}"


def spread(n: Numbers, what: str, by: float = 100.0, digits: int = 1) -> str:
    """A mean and its standard deviation."""
    return f"{by * n[f'{what}, mean']:.{digits}f} ± {by * n[f'{what}, sd']:.{digits}f}"


def text(n: Numbers) -> list[str]:
    """Accuracies by method, and paired differences."""
    out = [head("method", "rate", "test accuracy", "at training accuracy 80 %",
                "training accuracy at the end", "collapsed")]  # fmt: skip
    for m in CLAIMS["C.real-text"].full["methods"]:
        rate = n.get(f"{m}: rate chosen", n["1.1: rate chosen"])
        shares = [spread(n, f"{m}: {what}") for what in ("test accuracy",
                  "test accuracy at training 0.8", "training accuracy at the end")]  # fmt: skip
        out.append(row(name(m), f"{rate:g}", *shares, f"{n[f'{m}: runs that collapse']:.0f} of 5"))
    bag = [f"{100 * n[f'bag of words: {part} accuracy']:.1f}" for part in ("test", "training")]
    out += [row("bag of words", "", bag[0], "", bag[1], ""), ""]
    out.append(head("difference, in points", "test accuracy", "at training accuracy 80 %"))
    for a, b in PAIRS:
        cells = []
        for what in ("test accuracy", "at training 0.8"):
            m, low, high = (100 * n[f"{a} less {b}, {what}: {k}"] for k in ("mean", "from", "to"))
            cells.append(f"{m:+.1f} ({low:+.1f} to {high:+.1f})")
        out.append(row(f"{name(a)} less {name(b)}", *cells))
    return out


def weights(n: Numbers) -> list[str]:
    """Entries above the level, by method and matrix."""
    whens = ("at the end", "at matched accuracy")
    out = [
        head("method", *(f"{x}, {w}" for w in ("end", "80 %") for x in "KQV"), "spread at the end")
    ]
    for m in CLAIMS["C.sparser-weights"].full["methods"]:
        cells = [spread(n, f"{m}: {x} above the level, {w}", 1, 0) for w in whens for x in "KQV"]
        wide = ", ".join(f"{n[f'{m}: {x} spread, at the end']:.2f}" for x in "KQV")
        out.append(row(name(m), *cells, wide))
    return out


def words(n: Numbers) -> list[str]:
    """Attention on opinion words, by method and lexicon."""
    out = [head("method", "rated by people", "by the bag of words", "named word, 0 to 1")]
    for m in CLAIMS["C.opinion-words"].full["methods"]:
        even = "times the even share on words"
        cells = [spread(n, f"{m}: {what}", 1, 2) for what in (f"{even} rated by people",
                 f"{even} by the bag of words", "score of the named word")]  # fmt: skip
        out.append(row(name(m), *cells))
    return out


def images(n: Numbers) -> list[str]:
    """Accuracies and entries above the level, by method."""
    out = [head("method", "rate", "test accuracy", "at training accuracy 80 %", "K", "Q", "V")]
    for m in CLAIMS["C.real-images"].full["methods"]:
        shares = [
            spread(n, f"{m}: {x}") for x in ("test accuracy", "test accuracy at training 0.8")
        ]
        counts = [spread(n, f"{m}: {x} above the level, at the end", 1, 0) for x in "KQV"]
        out.append(row(name(m), f"{n[f'{m}: rate chosen']:g}", *shares, *counts))
    return out


def sparsification(n: Numbers) -> list[str]:
    """Spread and size over training, beside the published ones."""
    out = [head("", "start", "1/4", "2/4", "3/4", "end")]
    for what, published, digits in zip(("spread", "‖W‖"), PUBLISHED, (2, 1), strict=True):
        unit = "" if what == "spread" else " in thousands"
        out.append(row(f"{what}{unit}, published", *published))
        for m in CLAIMS["A.sparsification"].full["methods"]:
            found = [
                next(x for k, x in n.items() if k.startswith(f"{m}: {what}, {j}/4 of training"))
                for j in range(5)
            ]
            out.append(row(f"{what}, {name(m)}", *(f"{x:.{digits}f}" for x in found)))
    return out


def sentences(n: Numbers) -> list[str]:
    """Cosines of each run to the solutions of all exponents."""
    exponents = list(CLAIMS["C.real-sentences"].full["lr"])
    out = [head("run", *(f"ℓ{q}" for q in exponents), "least to its own")]
    for p in exponents:
        cells = [f"{n[f'p = {p}: mean cosine to ℓ{q}']:.4f}" for q in exponents]
        out.append(row(name(p), *cells, f"{n[f'p = {p}: least cosine to its own solution']:.4f}"))
    return out


TABLES = {
    "C.real-sentences": sentences,
    "C.real-text": text,
    "C.sparser-weights": weights,
    "C.opinion-words": words,
    "C.real-images": images,
    "A.sparsification": sparsification,
}


if __name__ == "__main__":
    records = {record["id"]: record for record in read_results(Path(sys.argv[1]))}
    for claim, table in TABLES.items():
        if claim in records:
            seen = {test["what"]: test["seen"] for test in records[claim]["numbers"]}
            print(f"## {claim}: {records[claim]['verdict']}\n", *table(seen), "", sep="\n")
