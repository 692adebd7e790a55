"""ConvergenceProof: that a run tends to the max-margin direction from where it is, or why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from attsvm._utils.arrays import Floats, Ints, numbers
from attsvm._utils.expected import whole
from attsvm._utils.files import finite
from attsvm._utils.result import Result, Table, draw
from attsvm._utils.summary import Summary
from attsvm.errors import BadTokens, Unsupported
from attsvm.problem.tokens import Tokens
from attsvm.training.losses import LOSSES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attsvm.theory.convergence.verify import Recheck

Theorem = Literal["tube", "cone", "level", "power cone"]


@dataclass(frozen=True, eq=False, repr=False)
class Blocked(Result):
    """What stands in the way of a proof: a sentence, and where there is one the row (input, token).

    norm: about the ‖W‖ at which the proof would succeed, if W kept its offset from the limit's ray;
    nan where no norm is known to be enough. In floats, and no promise.
    """

    reason: str
    row: tuple[int, int] | None = None
    norm: float = float("nan")

    def _card(self) -> Summary:
        facts = {} if self.row is None else {"input, token": self.row}
        return Summary("Blocked", self.reason, facts | {"norm": self.norm}, brief=True)


@dataclass(frozen=True, eq=False, repr=False)
class ConvergenceProof(Table):
    """Whether the exact iteration from W keeps its selection for ever and tends to W^mm, proved.

    theorem: "tube" (with a rate), "cone", "level" (plain descent at the best tokens), "power cone"
    (mirror descent), or None; then `blocked` says why. selection (n,): the tokens. direction
    (d, dq): W^mm, in floats. constants: every number of the theorem by its name in
    docs/convergence.md, rounded the safe way. witness: the arrays from which the constants can be
    computed again. longest_step: steps up to this length
    (up to this η for plain descent) are covered. float_steps: for how many steps in floats the
    proof also holds, their rounding included; 0 where it speaks of exact steps alone.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [0.5, 0.0], [0.0, -3.0]]])
    >>> proof = attsvm.proof_of_convergence(tokens, [0.0, 30.0], head=[0.2, 0.7], lr=0.1)
    >>> proof.theorem, proof.selection, proof.verify().ok
    ('tube', array([0]), True)
    >>> bool(proof.bound(10**6) < 1e-6)
    True
    """

    tokens: Tokens
    head: Floats
    W: Floats
    optimizer: str
    lr: float
    loss: str
    selection: Ints
    theorem: Theorem | None
    constants: Mapping[str, float] = field(default_factory=dict)
    witness: Mapping[str, Any] = field(default_factory=dict)
    direction: Floats | None = None
    longest_step: float = float("nan")
    float_steps: int = 0
    blocked: Blocked | None = None

    @property
    def proved(self) -> bool:
        """Whether there is a proof."""
        return self.theorem is not None

    def bound(self, steps: Any = 0) -> Any:
        """At most 1 − corr(W_t, W^mm) after so many more steps of length lr; nan without a rate.

        The tube has a rate: 1 − corr ≤ rate/ρ², and ρ grows by at least `growth` at each step of
        normalized descent. Of plain descent only the bound at step 0, and `bound_at`, are known.
        """
        t = numbers(steps, "steps").astype(np.float64, copy=False)
        if self.theorem != "tube":
            return np.full(t.shape, np.nan)[()]
        growth = self.constants.get("growth", 0.0)
        rho = self.constants["rho"] + growth * t
        value = np.where((t == 0) | (growth > 0), self.constants["rate"] / rho**2, np.nan)
        return np.minimum(value * (1 + 2.0**-40), 1.0)[()]

    def bound_at(self, W: Any) -> Any:
        """At most 1 − corr of later iterates W (..., d, dq); nan without a rate.

        Holds for what the run reaches from here, not for any W.
        """
        array = numbers(W, "W").astype(np.float64, copy=False)
        if array.ndim < 2 or array.shape[-2:] != self.W.shape:
            raise BadTokens(
                f"W has shape {array.shape}; it must be (..., {self.W.shape[0]}, {self.W.shape[1]})"
            )
        if self.theorem != "tube" or self.direction is None:
            return np.full(array.shape[:-2], np.nan)[()]
        square = float((self.direction**2).sum())
        rho = np.einsum("...ij,ij->...", array, self.direction) / square
        rho = rho * (1 - 1e-7) if self.constants["rho"] > 0 else rho
        value = np.where(rho > 0, self.constants["rate"] / np.where(rho > 0, rho, 1.0) ** 2, np.inf)
        return np.minimum(value, 1.0)[()]

    @property
    def message(self) -> str:
        """One sentence."""
        if self.theorem is None:
            blocked = Blocked("no inequality holds") if self.blocked is None else self.blocked
            more = ""
            if np.isfinite(blocked.norm):
                more = f"; it would hold from a norm of about {blocked.norm:.3g} on"
            return f"not proved: {blocked.reason}{more}"
        c = self.constants
        said = {
            "tube": "W stays within {D:.3g} of its limit ray, and 1 − corr ≤ {bound:.2e} and falls",
            "cone": "corr stays above {c0:.6g} and tends to 1",
            "power cone": "c_p stays above {c0:.6g} and tends to 1",
            "level": "the loss never rises above its level again, and the direction converges",
        }[self.theorem]
        values = {**c, "bound": float(self.bound())}
        return (
            f"converges, proved ({self.theorem}): the selection never changes; "
            + said.format(**values)
            + f"; steps up to {self.longest_step:.3g}"
            + ("" if self.loss in LOSSES else f"; assumes the declared steepness of {self.loss!r}")
        )

    def require(self) -> ConvergenceProof:
        """The proof itself. Raises NotConverged where there is none."""
        from attsvm.errors import NotConverged

        if not self.proved:
            raise NotConverged(self.message)
        return self

    def verify(self) -> Recheck:
        """The verdict of a recomputation from tokens, W and witness alone, in intervals."""
        from attsvm.theory.convergence.verify import verify_proof

        return verify_proof(self)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the proof with its data as an .npz file without pickles, in one move."""
        from attsvm.theory.convergence.saved import save_proof

        save_proof(self, path, force=force)

    @staticmethod
    def load(path: str | Path) -> ConvergenceProof:
        """The proof saved in this file; its claims are not checked before `verify` is."""
        from attsvm.theory.convergence.saved import load_proof

        return load_proof(path)

    def to_dict(self) -> dict[str, Any]:
        """The proof as plain data for JSON, without the arrays; unknown values are None."""
        blocked = self.blocked
        found = {
            "proved": self.proved,
            "theorem": self.theorem,
            "optimizer": self.optimizer,
            "lr": self.lr,
            "loss": self.loss,
            "selection": [int(t) for t in self.selection],
            "bound": self.bound(),
            "longest_step": self.longest_step,
            "float_steps": self.float_steps,
            "constants": dict(self.constants),
            "blocked": None
            if blocked is None
            else {"reason": blocked.reason, "row": blocked.row, "norm": blocked.norm},
            "message": self.message,
        }
        return dict(finite(found))

    def columns(self) -> dict[str, Any]:
        """The constants of the theorem: name and value."""
        names = list(self.constants)
        return {"constant": names, "value": [float(self.constants[name]) for name in names]}

    def plot(self, *, steps: int | None = None, ax: Any = None, style: str = "screen") -> Figure:
        """What is proved of 1 − corr over so many more steps; raises Unsupported without a rate.

        steps: a hundred times those that double the height unless given. ax: axes to draw into, in
        their own style. style: "screen", or "paper" for a column.
        """
        steps = None if steps is None else whole(steps, "steps", least=1)
        return draw("proof", self, steps=steps, ax=ax, style=style)

    def _card(self) -> Summary:
        facts = {
            "theorem": "none" if self.theorem is None else self.theorem,
            "selection": self.selection,
            "optimizer": f"{self.optimizer}, lr {self.lr:g}, loss {self.loss}",
            "1 − corr at most": float(self.bound()),
            "longest step": self.longest_step,
            "steps in floats": self.float_steps,
        }
        if self.theorem is None:
            facts = {name: facts[name] for name in ("theorem", "selection", "optimizer")}
        return Summary(type(self).__name__, self.message, facts, self.columns(), brief=True)


def unsupported(what: str) -> Unsupported:
    """The error for what has no theorem, with what has one."""
    return Unsupported(
        f"no theorem of convergence covers {what}: it covers weight and prompt models with a "
        "fixed linear head, the listed optimizers gd, ngd, mirror:P and nmirror:P without a ridge "
        "or "
        "decay, and losses logistic, exponential and linear"
    )
