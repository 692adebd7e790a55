"""C: on real sentences, too, each exponent of mirror descent ends at its own solution."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.datasets.real import labelled_reviews
from attsvm.experiments.group import Drawn, Group, cosine, gaps_of, norm_name
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most
from attsvm.problem.tokens import Tokens

# Steps are normalized in the dual variable u, and W grows like (η t)^{1/(p − 1)}: small exponents
# need more of them.
RATES = {"1.1": 0.2, "1.5": 0.3, "2": 1.0, "3": 30.0}
STEPS = {"1.1": 30_000, "1.5": 12_000, "2": 12_000, "3": 12_000}


@lru_cache(maxsize=1)
def _reviews() -> list[tuple[list[str], int]]:
    """All sentences, as the different words of each, with their labels."""
    parts = labelled_reviews().parts.values()
    return [
        (list(dict.fromkeys(text)), int(label))
        for part in parts
        for text, label in zip(part.inputs, part.labels, strict=True)
    ]


def family(seeds: Sequence[int], sentences: int, words: tuple[int, int], d: int) -> Drawn:
    """Sentences with so many different words, drawn by each seed, and the fixed v."""
    made = [_instance(seed, sentences, words, d) for seed in seeds]
    return Drawn([tokens for tokens, _ in made], np.stack([v for _, v in made]))


def _instance(seed: int, n: int, words: tuple[int, int], d: int) -> tuple[Tokens, Floats]:
    """n sentences and v; each word is a random unit vector (d,).

    The query of a sentence is its last word, the label whether the review praises.
    """
    draw = np.random.default_rng(seed)
    shuffled = (_reviews()[k] for k in draw.permutation(len(_reviews())))
    taken = list(islice((one for one in shuffled if words[0] <= len(one[0]) <= words[1]), n))
    numbers = {
        word: k for k, word in enumerate(dict.fromkeys(w for text, _ in taken for w in text))
    }
    vectors = draw.standard_normal((len(numbers), d))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    X = np.zeros((n, words[1], d))
    mask = np.zeros(X.shape[:2], dtype=bool)
    for i, (text, _) in enumerate(taken):
        X[i, : len(text)] = vectors[[numbers[word] for word in text]]
        mask[i, : len(text)] = True
    v: Floats = draw.standard_normal((d,))
    queries = X[np.arange(n), mask.sum(axis=1) - 1]
    labels = [1.0 if label else -1.0 for _, label in taken]
    return Tokens(X, queries=queries, labels=labels, mask=mask), v / np.linalg.norm(v)


def measure(group: Group) -> dict[str, Any]:
    """The cosine of each run's end to the solution in every norm, at the tokens that it selects."""
    found = {p: group.solved(group.selected, norm_name(p)) for p in RATES}
    cosines = {
        _to(p): np.array([cosine(W, c) for W, c in zip(group.ends, solved, strict=True)])
        for p, solved in found.items()
    }
    return {**cosines, "gap": np.max([gaps_of(solved) for solved in found.values()], axis=0)}


def _to(p: str) -> str:
    return f"cosine_ℓ{p}"


def checks(table: Table, thresholds: Any) -> Checks:
    """Each run at its own solution, and further from those of other exponents."""
    for optimizer, rows in table.groupby("optimizer", sort=False):
        p = str(optimizer).removeprefix("nmirror:")
        cosines = rows[list(map(_to, RATES))]
        own, others = cosines[_to(p)], cosines.drop(columns=_to(p))
        asked = thresholds["below 1.5" if float(p) < 1.5 else "from 1.5"]
        excess = others.max(axis=1, skipna=False) - own
        yield at_least(f"p = {p}: least cosine to its own solution", own.min(skipna=False), asked)
        yield at_most(f"p = {p}: largest cosine to another, less its own",
                      excess.max(skipna=False), 0.0)  # fmt: skip
    count = table.seed.nunique()
    yield Premises(
        count,
        f"{count} draws of Rotten Tomatoes sentences with random word vectors, separable at the "
        f"tokens selected in every run; {len(table) * len(RATES)} solutions",
    )


STUDY = Study(
    id="C.real-sentences",
    title="Each exponent meets its own solution on real sentences",
    kind="question",
    source="measured",
    statement="On real sentences with frozen random word vectors and a fixed v, normalized ℓp "
    "mirror descent on W ends in the direction of the ℓp solution at the tokens it selects, and "
    "further from the solutions of other exponents at the same tokens.",
    family=family,
    grid={"optimizer lr steps": [(f"nmirror:{p}", lr, STEPS[p]) for p, lr in RATES.items()]},
    run={"sentences": 150, "words": (6, 10), "d": 40},
    seeds=3,
    group=1,
    measure=measure,
    checks=checks,
    gap=1e-8,
    thresholds={"below 1.5": 0.98, "from 1.5": 0.99},
    quick={
        "grid": {"optimizer lr steps": [(f"nmirror:{p}", lr, 8000) for p, lr in RATES.items()]},
        "run": {"sentences": 40, "d": 24},
        "seeds": 1,
    },
    figure={
        "kind": "matrix",
        "rows": "optimizer",
        "values": list(map(_to, RATES)),
        "xlabel": "solution at the same tokens",
        "ylabel": "run",
        "vlabel": "median cosine",
        "title": "Highest at its own",
    },
    needs=("reviews",),
)
