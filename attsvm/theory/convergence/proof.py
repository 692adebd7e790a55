"""ConvergenceProof: that a run tends to the max-margin direction from where it is, or why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from attsvm._utils.arrays import Floats, Ints, numbers
from attsvm._utils.expected import file_path, whole
from attsvm._utils.files import finite, load_arrays, write_arrays
from attsvm._utils.result import Result, Summary, Table, draw
from attsvm.errors import BadTokens, NotConverged, Unsupported
from attsvm.problem.tokens import Tokens
from attsvm.training.losses import LOSSES, loss_of
from attsvm.training.optimizers import optimizer_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attsvm.theory.convergence.prover import Prover
    from attsvm.theory.convergence.verify import Recheck

Theorem = Literal["tube", "cone", "level", "power cone"]


@dataclass(frozen=True, eq=False, repr=False)
class Blocked(Result):
    """What blocks a proof: a sentence, and where there is one the row (input, token)."""

    reason: str
    row: tuple[int, int] | None = None

    def _card(self) -> Summary:
        facts = {} if self.row is None else {"input, token": self.row}
        return Summary("Blocked", self.reason, facts, brief=True)


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
    theorem: Theorem | None = None
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
            return f"not proved: {blocked.reason}"
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
        if not self.proved:
            raise NotConverged(self.message)
        return self

    def verify(self) -> Recheck:
        """The verdict of a recomputation from the data, W and witness alone, in intervals."""
        from attsvm.theory.convergence.verify import recheck

        return recheck(self)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the proof with its data as an .npz file without pickles, in one move."""
        write_arrays(file_path(path, "path"), self._arrays(), force=force)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The proof saved in this file: what it claims, which only `verify` checks.

        Raises BadTokens where an array is missing, of another kind or shape, or not finite.
        """
        file = file_path(path, "path")
        found = load_arrays(file)
        check_arrays(file, found)
        return cls(**cls._fields(file, found))

    def _prover(self) -> Prover:
        """The prover of the proof's data."""
        from attsvm.theory.convergence.prover import prover_for

        optimizer, loss = optimizer_of(self.optimizer), loss_of(self.loss)
        return prover_for(optimizer, self.tokens, self.head, loss, self.lr)

    def _arrays(self) -> dict[str, Any]:
        """All that a saved proof holds, by name."""
        tokens, blocked = self.tokens, self.blocked
        kept: dict[str, Any] = {"attsvm_proof": VERSION, "X": np.asarray(tokens.X, np.float64)}
        kept["queries"] = tokens.queries
        names = ("head", "W", "selection", "optimizer", "loss", "lr")
        kept |= {name: getattr(self, name) for name in names}
        kept["theorem"] = self.theorem or ""
        kept |= {name: getattr(self, name) for name in ("longest_step", "float_steps")}
        kept["blocked"] = "" if blocked is None else blocked.reason
        if tokens.keys is not tokens.X:
            kept["keys"] = np.asarray(tokens.keys, np.float64)
        kept |= {name: getattr(tokens, name) for name in ("labels", "mask", "source")}
        kept["direction"] = self.direction
        if blocked is not None:
            kept["blocked_row"] = blocked.row
        kept |= {f"constants.{name}": np.float64(x) for name, x in self.constants.items()}
        kept |= {f"witness.{name}": value for name, value in self.witness.items()}
        return {name: value for name, value in kept.items() if value is not None}

    @classmethod
    def _fields(cls, file: Path, found: dict[str, Any]) -> dict[str, Any]:
        """The fields of the proof that has these arrays."""
        if "sentences.E" in found:
            raise BadTokens(
                f"{file} is a proof on sentences: load it with next_token.SentenceProof.load"
            )
        more = {name: found[name] for name in _OPTIONAL if name in found}
        tokens = Tokens(found["X"], queries=found["queries"], **more)
        return read_fields(file, found, tokens, (tokens.d,))

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
            "blocked": None if blocked is None else asdict(blocked),
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
        "or decay, and losses logistic, exponential and linear"
    )


# The format of saved proofs: one .npz file without pickles that holds all that a recheck needs.
# `load(path).verify()` rechecks it here; `tools/check_proof.py` shares no code with this package.
VERSION = 1
_THEOREMS = ("", "tube", "cone", "level", "power cone")
_WORDS = ("optimizer", "loss", "theorem", "blocked")
_ARRAYS = ("X", "queries", "head", "W", "selection", "lr", "longest_step", "float_steps")
# What of the tokens may be absent.
_OPTIONAL = ("keys", "labels", "mask", "source")


def check_arrays(file: Path, found: dict[str, Any]) -> None:
    """Raises BadTokens unless these are the arrays of a proof."""
    version = found.get("attsvm_proof")
    if version is None:
        raise BadTokens(f"{file} is not a saved proof: it has no array attsvm_proof")
    if version.dtype.kind not in "iu" or version.ndim or int(version) != VERSION:
        raise BadTokens(
            f"{file} has proof format {version.tolist()!r}; this version reads {VERSION}"
        )
    for name in (*_WORDS, *_ARRAYS):
        if name not in found:
            raise BadTokens(f"{file} is not a whole proof: it has no array {name}")
        kind = "U" if name in _WORDS else "iuf"
        if found[name].dtype.kind not in kind:
            raise BadTokens(f"{file}: {name} has type {found[name].dtype}")
    theorem = str(found["theorem"])
    if theorem not in _THEOREMS:
        known = ", ".join(_THEOREMS[1:])
        raise BadTokens(f"{file}: unknown theorem {theorem!r}; known are {known}")


def read_fields(
    file: Path, found: dict[str, Any], tokens: Tokens, head: tuple[int, ...]
) -> dict[str, Any]:
    """The fields of a proof about these tokens; head: the shape that the head must have."""
    theorem = str(found["theorem"])
    shape = (tokens.keys.shape[2], tokens.queries.shape[1])
    for name, wanted in (("W", shape), ("head", head), ("selection", (tokens.n,))):
        if found[name].shape != wanted:
            raise BadTokens(f"{file}: {name} has shape {found[name].shape}; it must be {wanted}")
        if not np.isfinite(found[name]).all():
            raise BadTokens(f"{file}: {name} is not finite")
    alpha = found["selection"].astype(np.int64)
    if ((alpha < 0) | (alpha >= tokens.T)).any():
        raise BadTokens(f"{file}: selection holds a token that is not there")
    blocked: Blocked | None = None
    if reason := str(found["blocked"]):
        row = found.get("blocked_row")
        pair = None if row is None or row.shape != (2,) else (int(row[0]), int(row[1]))
        blocked = Blocked(reason, pair)
    if not theorem and blocked is None:
        raise BadTokens(f"{file}: nothing is proved, and nothing is said to block it")
    return {
        "tokens": tokens,
        "head": np.asarray(found["head"], np.float64),
        "W": np.asarray(found["W"], np.float64),
        "optimizer": str(found["optimizer"]),
        "lr": float(found["lr"]),
        "loss": str(found["loss"]),
        "selection": alpha,
        "theorem": theorem or None,
        "constants": _part(found, "constants."),
        "witness": _part(found, "witness."),
        "direction": found.get("direction"),
        "longest_step": float(found["longest_step"]),
        "float_steps": int(found["float_steps"]),
        "blocked": blocked,
    }


def _part(found: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The entries whose names begin so, without the prefix; single values as plain ones."""
    out: dict[str, Any] = {}
    for name, value in found.items():
        if name.startswith(prefix):
            out[name.removeprefix(prefix)] = value if value.ndim else value.item()
    return out
