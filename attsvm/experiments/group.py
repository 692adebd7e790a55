"""Group: the instances of some seeds at one point of a study, trained and solved as asked.

What a group holds depends on its parameters and on each instance's own seed alone, so that more
seeds or more points leave what is there as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.study import RUN
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.measures import bregman, correlation, margin_share
from attsvm.training.heads import head_of
from attsvm.training.losses import loss_of
from attsvm.training.models import model_of
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import Evaluation, evaluate
from attsvm.training.optimizers.optimizer import Blocks
from attsvm.training.path import Path
from attsvm.training.task import initial

# What a measure may return in place of columns: parts of the table, each with columns of its own.
Parts = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Drawn:
    """The instances of some seeds, as a family draws them.

    tokens: one per seed, of one size. heads: (B, d), of families that can be trained on. alpha:
    the tokens (B, n) that are to be selected, where these are not the best ones. starts: first
    parameters by block, (B, ...), for `init = "drawn"`. about: more that a measure may want, (B,).
    """

    tokens: list[Tokens]
    heads: Floats | None = None
    alpha: Ints | None = None
    starts: Blocks | None = None
    about: dict[str, Any] = field(default_factory=dict)


class Group:
    """What a measure is handed: instances, their run and their solutions, each made when asked for.

    seeds: one per instance. drawn: the instances. run: how they are trained, as in `study.RUN`.
    """

    def __init__(
        self, seeds: Sequence[int], drawn: Drawn | None = None, run: dict[str, Any] | None = None
    ) -> None:
        if drawn is not None and len(drawn.tokens) != len(seeds):
            raise BadTokens(f"a family drew {len(drawn.tokens)} instances for {len(seeds)} seeds")
        self.seeds, self._drawn, self.run = tuple(seeds), drawn, {**RUN, **(run or {})}

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def drawn(self) -> Drawn:
        """What the family drew; raises BadTokens for a study without a family."""
        if self._drawn is None:
            raise BadTokens("this study has no family: its measure draws what it needs")
        return self._drawn

    @property
    def tokens(self) -> list[Tokens]:
        """The instances."""
        return self.drawn.tokens

    @cached_property
    def heads(self) -> Floats:
        """The heads (B, d); raises BadTokens for a family without."""
        if self.drawn.heads is None:
            raise BadTokens("this family draws no heads, so that nothing can be trained on it")
        return self.drawn.heads

    @cached_property
    def path(self) -> Path:
        """The run of all instances."""
        how = {name: self.run[name] for name in ("model", "optimizer", "loss", "lr", "decay")}
        first = self._first()
        factor = first.get("K")
        return train(
            self.tokens,
            head=None if model_of(self.run["model"]).trains_head else self.heads,
            steps=self.run["steps"],
            schedule=self.run["schedule"],
            init=first,
            width=None if factor is None else factor.shape[2],
            **how,
        )

    def _first(self) -> Blocks:
        """The first parameters, each instance's from its own seed."""
        init, model = self.run["init"], model_of(self.run["model"])
        if init == "drawn":
            if self.drawn.starts is None:
                raise Unsupported('this family draws no starts: let init be "zero" or "normal:STD"')
            return self.drawn.starts
        first, width = 2**32 * int(self.run["start"]), self.run["width"] or None
        each = [
            initial(model, Batch.of(t), init, seed=first + seed, width=width)
            for t, seed in zip(self.tokens, self.seeds, strict=True)
        ]
        return {name: np.concatenate([blocks[name] for blocks in each]) for name in each[0]}

    @cached_property
    def ends(self) -> Floats:
        """The last W (B, d, dq)."""
        return self.path.matrices()[-1]

    @cached_property
    def selected(self) -> Ints:
        """The tokens (B, n) that the last W selects."""
        return self.path.selection.reshape(len(self), -1)

    @cached_property
    def best(self) -> Ints:
        """The tokens (B, n) that are to be selected: those of the family, or the best-scoring."""
        if self.drawn.alpha is not None:
            return self.drawn.alpha
        pairs = zip(self.tokens, self.heads, strict=True)
        return np.stack([Selection.best(t, v).indices for t, v in pairs])

    def solved(self, alpha: Ints, norm: str = "frobenius", where: Any = None) -> list[Any]:
        """The certificates of the problems that select these tokens (B, n).

        where: (B,), the instances that are solved; None stands for the others.
        """
        wanted = range(len(self)) if where is None else np.flatnonzero(where).tolist()
        problems = [
            Problem.of(self.tokens[b], Selection.of(self.tokens[b], alpha[b])) for b in wanted
        ]
        out: list[Any] = [None] * len(self)
        for b, certificate in zip(
            wanted, solve_many(problems, norm) if problems else [], strict=True
        ):
            out[b] = certificate
        return out


def norms_of(found: Sequence[Certificate | None]) -> Floats:
    """The certified least norms from below (B,); nan where there is no solution."""
    return np.array([c.lower if c is not None and np.isfinite(c.upper) else np.nan for c in found])


def gaps_of(found: Sequence[Certificate | None]) -> Floats:
    """The certified gaps (B,); nan where there is no solution."""
    return np.array([c.gap if c is not None and np.isfinite(c.upper) else np.nan for c in found])


def cosine(W: Floats, certificate: Certificate | None) -> float:
    """The correlation of W with the certified solution; nan when none is certified, or W = 0."""
    if certificate is None or certificate.W is None or not np.any(W):
        return float("nan")
    return float(correlation(W, certificate))


def cosines(W: Floats, certificate: Certificate | None) -> Floats:
    """The cosine of each W of a stack (R, d, dq), or of each prompt (R, d)."""
    return np.array([cosine(M[:, None] if M.ndim == 1 else M, certificate) for M in W])


def share(W: Floats, certificate: Certificate | None) -> float:
    """The certified margin share of W; nan when no solution is certified, or W = 0."""
    if certificate is None or certificate.W is None or not np.any(W):
        return float("nan")
    return float(margin_share(W, certificate))


def norm_name(p: str) -> str:
    """The name of the entrywise norm of exponent p."""
    return "frobenius" if float(p) == 2 else f"l{p}"


def divergence(W: Floats, best: Any, p: str) -> Floats:
    """The divergence of each W (R, d, dq) in exponent p from a certified solution; nan without."""
    if best.W is None or not np.isfinite(best.gap):
        return np.full(len(W), np.nan)
    return np.asarray(bregman(W, best.W, float(p)))


def thinned(steps: Ints | Floats, most: int = 40) -> Ints:
    """The places of up to `most` records, evenly spread, the first and the last included."""
    return np.unique(np.linspace(0, len(steps) - 1, min(most, len(steps))).round().astype(int))


def evaluate_at(
    tokens: Tokens, v: Floats, W: Floats, *, model: str = "weight", loss: str = "logistic"
) -> Evaluation:
    """Loss, gradient and attention of one instance at several weights, or prompts, (R, ...)."""
    block = "p" if model == "prompt" else "W"
    batch = Batch.of([tokens] * len(W))
    return evaluate(model_of(model), {block: W}, batch, head_of(v, tokens.d), loss_of(loss))


def share_among(yes: Bools, among: Bools) -> Floats:
    """The share of `yes` among some inputs, of the last axis; nan of none."""
    with np.errstate(invalid="ignore"):
        return (yes & among).sum(axis=-1) / among.sum(axis=-1)


def selected_by(tokens: Tokens, W: Floats) -> Ints:
    """The token of each input (..., n) with the largest logit k_t·W z under each W (..., d, dq)."""
    keys = np.asarray(tokens.keys, dtype=np.float64)
    source = keys if tokens.source is None else keys[tokens.source]
    logits = np.einsum("ntd,...dq,nq->...nt", source, W, tokens.queries)
    return np.where(tokens.present(), logits, -np.inf).argmax(axis=-1)
