"""C: on real sentences, too, each exponent of mirror descent ends at its own solution."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.datasets.real import labelled_reviews
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    Test,
    at_least,
    at_most,
    noted,
    seeds_of,
)
from attsvm.experiments.studies.shared.mirror_runs import norm_name
from attsvm.experiments.studies.shared.proof import (
    cosine,
    recertified,
    saved_solutions,
    selected,
    worst_gap,
)
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@lru_cache(maxsize=1)
def _reviews() -> tuple[list[list[str]], list[int]]:
    """All sentences and their labels."""
    found = labelled_reviews()
    parts = found.parts.values()
    return [text for part in parts for text in part.inputs], [
        int(y) for part in parts for y in part.labels
    ]


def sentences(config: Config, seed: int) -> tuple[Tokens, Floats]:
    """Sentences drawn by this seed as Tokens, and the fixed v.

    A sentence is its different words, each a random unit vector (d,); the query is its last word,
    the label whether the review praises.
    """
    texts, labels = _reviews()
    draw = np.random.default_rng(seed)
    least, most = config["words"]
    n, d = config["sentences"], config["d"]
    taken: list[list[str]] = []
    signs: list[float] = []
    for k in draw.permutation(len(texts)):
        words = list(dict.fromkeys(texts[k]))
        if least <= len(words) <= most:
            taken.append(words)
            signs.append(1.0 if labels[k] else -1.0)
        if len(taken) == n:
            break
    number: dict[str, int] = {}
    for words in taken:
        for word in words:
            number.setdefault(word, len(number))
    vectors = draw.standard_normal((len(number), d))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    X = np.zeros((n, most, d))
    mask = np.zeros((n, most), dtype=bool)
    for i, words in enumerate(taken):
        X[i, : len(words)] = vectors[[number[word] for word in words]]
        mask[i, : len(words)] = True
    v: Floats = draw.standard_normal((d,))
    v = v / np.linalg.norm(v)
    queries = X[np.arange(n), mask.sum(axis=1) - 1]
    return Tokens(X, queries=queries, labels=signs, mask=mask), v


def run(config: Config) -> Result:
    """The end of each run, and the solutions in every norm at the tokens that it selects."""
    out: Result = {}
    for seed in seeds_of(config):
        tokens, v = sentences(config, seed)
        for p, lr in config["lr"].items():
            path = train(tokens, optimizer=f"nmirror:{p}", head=v, lr=lr, steps=config["steps"][p])
            W = path.matrices()[-1, 0]
            out[f"{seed}.{p}.W"] = W
            problem = _problem(tokens, W)
            for q in config["lr"]:
                out |= saved_solutions(f"{seed}.{p}.{q}", [solve(problem, norm_name(q))])
    return out


def _problem(tokens: Tokens, W: Floats) -> Problem:
    return Problem.of(tokens, Selection.of(tokens, selected(tokens, W)))


def cosines(config: Config, result: Result) -> tuple[Floats, float]:
    """(cosines (seeds, p, q) of each run's end to the certified ℓq solution, the largest gap)."""
    exponents = list(config["lr"])
    rows, gap = [], 0.0
    for seed in seeds_of(config):
        tokens, _ = sentences(config, seed)
        for p in exponents:
            W = result[f"{seed}.{p}.W"]
            problem = _problem(tokens, W)
            for q in exponents:
                found = recertified(f"{seed}.{p}.{q}", [problem], norm_name(q), result)
                gap = max(gap, worst_gap(found))
                rows.append(cosine(W, found[0]) if np.isfinite(found[0].gap) else np.nan)
    shape = (len(seeds_of(config)), len(exponents), len(exponents))
    return np.array(rows, dtype=np.float64).reshape(shape), gap


def check(config: Config, result: Result) -> Finding:
    """Each run at its own solution, and further from those of other exponents."""
    matrix, gap = cosines(config, result)
    exponents = list(config["lr"])
    tests: list[Test] = []
    for k, p in enumerate(exponents):
        own, others = matrix[:, k, k], np.delete(matrix[:, k], k, axis=1)
        asked = config["least"]["below 1.5" if float(p) < 1.5 else "from 1.5"]
        tests += [
            at_least(f"p = {p}: least cosine to its own solution", own.min(), asked),
            at_most(f"p = {p}: largest cosine to another, less its own", _excess(own, others), 0.0),
        ]
        tests += [
            noted(f"p = {p}: mean cosine to ℓ{q}", matrix[:, k, j].mean())
            for j, q in enumerate(exponents)
        ]
    tests.append(at_most("largest certified gap", gap, norm_of("l3").tolerance))
    count = len(seeds_of(config))
    premises = (
        f"{count} draws of {config['sentences']} Rotten Tomatoes sentences with random word "
        f"vectors, separable at the tokens selected in every run; {matrix.size} solutions"
    )
    return Finding(tuple(tests), premises, count, gap)


def _excess(own: Floats, others: Floats) -> float:
    return float((others.max(axis=1) - own).max())


def plot(config: Config, result: Result) -> Figure:
    """The matrix of mean cosines, run by solution; and each row as a line."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    matrix, _ = cosines(config, result)
    mean, exponents = matrix.mean(axis=0), list(config["lr"])
    figure, (left, right) = panels(2)
    left.imshow(mean, cmap="Blues", vmin=min(0.4, mean.min()), vmax=1.3)
    places = range(len(exponents))
    for k in places:
        for j in places:
            left.text(j, k, f"{mean[k, j]:.3f}", ha="center", va="center")
    left.set_xticks(places, [f"ℓ{q}" for q in exponents])
    left.set_yticks(places, [f"p = {p}" for p in exponents])
    left.set(xlabel="solution", ylabel="run", title="Mean cosine")
    left.grid(False)
    for k, p in enumerate(exponents):
        right.plot(places, mean[k], "o-", color=CYCLE[k], label=f"run of p = {p}")
    right.set_xticks(places, [f"ℓ{q}" for q in exponents])
    right.set(xlabel="solution at the same tokens", ylabel="cosine", title="Highest at its own")
    right.legend()
    return figure


_FULL = {
    "seeds": 3,
    "sentences": 150,
    "words": [6, 10],
    "d": 40,
    # Steps are normalized in the dual variable u, and W grows like (η t)^{1/(p − 1)}.
    # Small exponents need more of them.
    "lr": {"1.1": 0.2, "1.5": 0.3, "2": 1.0, "3": 30.0},
    "steps": {"1.1": 30_000, "1.5": 12_000, "2": 12_000, "3": 12_000},
    "least": {"below 1.5": 0.98, "from 1.5": 0.99},
}

CLAIM = Claim(
    id="C.real-sentences",
    title="Each exponent meets its own solution on real sentences",
    kind="question",
    trust="measured",
    statement="On real sentences with frozen random word vectors and a fixed v, normalized ℓp "
    "mirror descent on W ends in the direction of the ℓp solution at the tokens it selects, and "
    "further from the solutions of other exponents at the same tokens.",
    full=_FULL,
    quick={
        **_FULL,
        "seeds": 1,
        "sentences": 40,
        "d": 24,
        "steps": dict.fromkeys(("1.1", "1.5", "2", "3"), 8000),
    },
    run=run,
    check=check,
    plot=plot,
    needs=("reviews",),
    reference="julistiono2024mirror",
)
