"""Optimizers that weigh small and large alike on sentences: parts of `graded_evidence`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attsvm import Sentences
from attsvm.datasets.sentences import realizable
from attsvm.next_token.training.train import SentenceObjective, sentence_task
from attsvm.training.config import OptimizerConfig
from attsvm.training.loop import TrainingTask
from attsvm.training.optimizers import optimizer_of
from tests.training.beside import OPTIMIZERS, apart, compared, digits_run, found
from tests.training.finding import Finding
from tests.training.sentence_digits import SentenceSetting

# Each model with each readout. "level": a decoder that rises at the follower alone, as one trained
# from zero does; "narrow": five tokens on the sphere in three dimensions.
PASSAGES = (
    "decoder", "next-token mass", "next-token softmax", "next-token level", "joint-next-token",
    "joint-next-token pairs", "decoder narrow", "next-token mass narrow",
    "next-token softmax narrow", "joint-next-token narrow",
)  # fmt: skip
STARTS = ("normal", "far", "far:2000")
N, NARROW = 5, 3
# Not realizable: with query 1, one sentence wants token 1 before 2 and another 2 before 1.
TORN = [[0, 1], [1, 2], [2, 3], [3, 0], [0, 1, 2], [2, 1, 2], [3, 2, 1, 3], [0, 3, 1]]


def passage(
    form: str, optimizer: str, start: str, *, steps: int, seed: int = 0,
    lines: list[list[int]] | None = None,
) -> SentenceSetting:  # fmt: skip
    """Eight sentences over five tokens, realizable unless given; starts as in `graded_evidence`."""
    model, *kinds = form.split()
    lines = realizable(N, (2, 4), 8, seed + 1) if lines is None else lines
    count = 1 + max(max(line) for line in lines)
    rng = np.random.default_rng([seed, 17])
    E = np.eye(count)
    if "narrow" in kinds:
        E = rng.standard_normal((count, NARROW))
        E /= np.linalg.norm(E, axis=1, keepdims=True)
    d = E.shape[1]
    head = None
    if "softmax" in kinds:
        head = 3 * rng.standard_normal((count, d))
    elif "level" in kinds:
        head = np.zeros((count, d))
        for x, y in (line for line in lines if len(line) == 2):
            head[y, x] = rng.uniform(2, 30)
    blocks = {}
    if model != "next-token":
        blocks["W_ov"] = rng.standard_normal((count, d))
    if model != "decoder":
        blocks["W_kq"] = rng.standard_normal((d, d))
    if start.startswith("far"):
        for block in blocks.values():
            block[:] = 0.0
            block.flat[0] = float(start.partition(":")[2] or 60.0)
    return SentenceSetting(
        model=model, optimizer=optimizer, start=blocks, steps=steps, lines=lines, E=E, head=head,
        pairs="pairs" in kinds,
    )  # fmt: skip


def task_of(s: SentenceSetting, weights: str = "empirical") -> TrainingTask:
    """The task of a setting, as its run has it."""
    mass = s.model == "next-token" and s.head is None
    data = Sentences.of(s.lines, vocabulary=len(s.E))
    lesson = SentenceObjective.of(
        data,
        s.model,
        head=s.head,
        embedding=s.E,
        readout="mass" if mass else "softmax",
        weights=weights,
        collocations=s.pairs,
    )
    return sentence_task(lesson, OptimizerConfig.of(s.optimizer))


def without(s: SentenceSetting) -> float:
    """The error of the same run when the optimizer sees only direction and scale."""
    exact, _ = digits_run(s)
    task = task_of(s)
    optimizer = optimizer_of(s.optimizer)
    params = {name: block[None].copy() for name, block in s.start.items()}
    state, worst = optimizer.init(params), 0.0
    for t in range(s.steps):
        with np.errstate(all="ignore"):
            seen = task.loss_and_grad(params)
        lr = np.full(1, s.lr)
        params, state = optimizer.update(params, seen.gradient, state, lr, seen.loss, t)
        here = {name: rows[t + 1 : t + 2] for name, rows in exact.items()}
        worst = max(worst, apart(params, here))
    return worst


def sentences(quick: bool) -> Iterator[Finding]:
    """Models of sentences, eight sentences over five tokens, step 1: error along the run."""
    for form in PASSAGES:
        for optimizer in OPTIMIZERS:
            for start in STARTS[1:2] if quick else STARTS:
                # Two thousand and more digits a number, from this far.
                steps = 8 if quick else 15 if start == "far:2000" else 60
                s = passage(form, optimizer, start, steps=steps)
                yield found(s, f"{form}, {optimizer}, {start}, {s.steps} its")
    for optimizer in () if quick else OPTIMIZERS:
        s = passage("next-token mass", optimizer, "far", steps=60, lines=TORN)
        yield found(s, f"torn next-token mass, {optimizer}, far, {s.steps} its", always=True)


def sentences_before(quick: bool) -> Iterator[Finding]:
    """The same by direction and scale alone."""
    for form in PASSAGES[:6]:
        for optimizer, start in (("spectral", "far"), ("sign", "far:2000"), ("adam", "far:2000")):
            s = passage(form, optimizer, start, steps=8 if quick else 40)
            error, _, _ = compared(s)
            what = f"{form}, {optimizer}, {start}, {s.steps} its"
            yield Finding(what, f"{without(s):.1g} before, {error:.1g} now")
