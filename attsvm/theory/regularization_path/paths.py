"""The regularization path: the least loss inside a growing norm ball.

    W_R = argmin L(W)  s.t. ‖W‖ ≤ R         (weight, prompt: Frobenius or ℓP)
    (K_R, Q_R): ‖K‖² + ‖Q‖² ≤ 2R            (factored: ‖K Qᵀ‖_* ≤ R, with equality at a minimum)
    (W_R, v_r): ‖W‖ ≤ R, ‖v‖ ≤ r(R)         (joint)

Whether a point is stationary is judged at any saturation by 1 − ⟨−∇L, W⟩/(‖∇L‖_dual ‖W‖), which
is 0 exactly when W is R times the norm's dual map of −∇L. The problem is not convex: what is
returned is the best end of several starts, the certified direction among them.

Theory: [tarzanagh2023maxmargin], [tarzanagh2023svm], [julistiono2024mirror].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats, numbers
from attsvm._utils.expected import function, whole
from attsvm._utils.progress import Progress
from attsvm._utils.result import Table, draw
from attsvm._utils.summary import Summary
from attsvm.certificate import Certificate
from attsvm.errors import BadTokens
from attsvm.norms import Norm
from attsvm.problem.selection import Kept
from attsvm.problem.tokens import Tokens
from attsvm.theory.measures import correlation, margin_share
from attsvm.theory.regularization_path.ball import aimed
from attsvm.theory.regularization_path.sweep import (
    PathConfig,
    Point,
    Setting,
    points_along,
    setting_of,
)
from attsvm.training.losses import Loss
from attsvm.training.models import Model, model_of
from attsvm.training.optimizers.optimizer import Blocks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class RegPath(Table):
    """Minimisers of the loss in balls of radii (R,), first to last.

    weights: each block (R, ...); second (R,): the radius of v in joint models (nan otherwise);
    loss (R,); infimum: the loss of the best tokens, its infimum (of the kept ones, in a cone), and
    log_excess (R,): log(L − infimum), both nan where none is known; residual (R,): 0 at a
    stationary point of the ball; size (R,): ‖W‖, below the radius at an interior minimum, where
    the residual says nothing; log_penalty (R,): log of the λ at which W is stationary for
    L + λ‖W‖²/2; origin: the start that led there. target: the certificate of the max-margin
    problem (None when there is none); correlation and certified margin share (R,) to it.
    certified_loss, certified_log_excess (R,): those of R times the certified direction (not for
    joint models), never below the ones found.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]], labels=[1])
    >>> path = attsvm.regpath(tokens, model="prompt", head=[0.2, 0.7], radii=[1, 10, 100])
    >>> path.correlation.round(3), round(path.infimum, 4)
    (array([0.959, 0.99 , 1.   ]), 0.4032)
    """

    model: str
    norm: Norm
    radii: Floats
    second: Floats
    weights: Blocks
    loss: Floats
    infimum: float
    log_excess: Floats
    residual: Floats
    size: Floats
    log_penalty: Floats
    origin: tuple[str, ...]
    target: Certificate | None
    correlation: Floats
    share: Floats
    certified_loss: Floats
    certified_log_excess: Floats

    def matrices(self) -> Floats:
        """The effective W at each radius (R, 1, d, dq)."""
        return model_of(self.model).matrix(self.weights)[:, None]

    def columns(self) -> dict[str, Any]:
        """A row per radius."""
        return {
            "radius": self.radii,
            "loss": self.loss,
            "log_excess": self.log_excess,
            "correlation": self.correlation,
            "margin_share": self.share,
            "residual": self.residual,
            "size": self.size,
            "log_penalty": self.log_penalty,
            "origin": list(self.origin),
        }

    def plot(self, *, ax: Any = None, style: str = "screen") -> Figure:
        """Distance of direction and of margin from the max-margin solution, over the radius.

        ax: axes to draw into, in their own style. style: "screen", or "paper" for a column.
        """
        return draw("regpath", self, ax=ax, style=style)

    def _card(self) -> Summary:
        said = (
            f"{self.model}, {self.norm.name}, radii {self.radii[0]:g} to "
            f"{self.radii[-1]:g}, correlation {self.correlation[-1]:.6f}, "
            f"share {self.share[-1]:.6f}, residual {self.residual.max():.1e}"
        )
        shown = ("radius", "loss", "correlation", "margin_share", "residual")
        return Summary(
            "RegPath", said, {}, {name: self.columns()[name] for name in shown}, brief=True
        )


def regpath(
    tokens: Tokens,
    *,
    model: str | Model = "weight",
    norm: str | Norm | None = None,
    head: Any = None,
    loss: str | Loss = "logistic",
    radii: Any = None,
    second: Callable[[float], float] | None = None,
    keep: Kept | None = None,
    starts: int = 4,
    scouts: int = 32,
    local: Certificate | Any = None,
    cone: float = 1e-3,
    width: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> RegPath:
    """The RegPath of least losses in balls of the given radii, smallest first.

    norm: "frobenius" (default) or "lP"; "nuclear" (the only one) for the factored model. radii:
    increasing; 13 from the least norm of the target to 10⁴ times it unless given. second: r(R) of
    the joint models, which need it: the limit of W depends on it. keep: the tokens of the target;
    the best ones under a linear head unless given, needed by joint models. starts: random starts
    at the first radius, each followed to the last one. scouts: under a linear head, so many
    selections of least loss, and as many random directions, are tried at each radius in one batch,
    and the best three minimised from. local: a Certificate or matrix; then W
    stays in the cone of cosine at least 1 − `cone` with it, on the sphere of radius R; a path that
    ends at that cosine is held by the cone, and the residual says nothing. The theorems hold for
    a small enough cone: margins of better tokens must stay above the tight ones inside it. width:
    columns of the factors.

    >>> import attsvm
    >>> from attsvm.datasets import EXAMPLES
    >>> a = EXAMPLES["single-input-global"]()
    >>> tokens = attsvm.Tokens(a["X"], keys=a["keys"], labels=a["y"])
    >>> path = regpath(tokens, model="prompt", head=a["v"], radii=[10, 100, 1000])
    >>> round(float(path.correlation[-1]), 3)
    1.0
    """
    starts, scouts = whole(starts, "starts", least=1), whole(scouts, "scouts", least=0)
    second, progress = function(second, "second"), function(progress, "progress")
    asked = PathConfig(model, norm, head, loss, second, keep, local, cone, width, seed)
    setting = setting_of(tokens, asked)
    grid = _radii(radii, setting.target)
    points = points_along(setting, grid, starts=starts, scouts=scouts, progress=progress)
    return record_of(setting, grid, points)


def _radii(radii: Any, target: Certificate | None) -> Floats:
    """The increasing radii."""
    if radii is None:
        return np.geomspace(1.0, 1e4, 13) * (1.0 if target is None else target.upper)
    grid = np.atleast_1d(numbers(radii, "radii").astype(np.float64))
    if grid.ndim != 1 or not len(grid) or not (grid > 0).all() or not np.isfinite(grid).all():
        raise BadTokens("radii must be positive numbers")
    if (np.diff(grid) <= 0).any():
        raise BadTokens("radii must increase")
    return grid


def record_of(setting: Setting, grid: Floats, points: list[Point]) -> RegPath:
    """The record of the minimisers."""
    tokens, task, target = setting.tokens, setting.task, setting.target
    extra, second = setting.extra, setting.second
    joint = second is not None
    tasks = [aimed(tokens, task, p.v) if joint else task for p in points]
    W = np.stack([task.matrix(p.x) for p in points])
    blocks = [task.blocks(p.x) for p in points]
    weights = {name: np.concatenate([b[name] for b in blocks]) for name in blocks[0]}
    if joint:
        weights["v"] = np.stack([p.v[:, 0] for p in points])
    nothing = np.full(len(grid), np.nan)
    certified = [nothing, nothing]
    if extra and not joint:
        at = [extra[0].x * (task.radius(R) / task.geometry.value(extra[0].x)) for R in grid]
        certified = [
            np.array([task.at(x)[0].loss[0] for x in at]),
            np.array([task.log_excess(x) for x in at]),
        ]
    share = nothing if target is None else np.atleast_1d(margin_share(W, target))
    cosine = nothing if target is None else np.atleast_1d(correlation(W, target))
    excess = task.excess
    return RegPath(
        task.model.name,
        task.norm,
        grid,
        np.array([second(float(R)) for R in grid]) if second is not None else nothing,
        weights,
        np.array([t.at(p.x)[0].loss[0] for t, p in zip(tasks, points, strict=True)]),
        np.nan if excess is None or joint else excess.infimum,
        np.array([t.log_excess(p.x) for t, p in zip(tasks, points, strict=True)]),
        np.array([p.away for p in points]),
        np.asarray(task.norm.value(W)),
        np.array([t.residual(p.x)[1] for t, p in zip(tasks, points, strict=True)]),
        tuple(p.origin for p in points),
        target,
        cosine,
        share,
        *certified,
    )
