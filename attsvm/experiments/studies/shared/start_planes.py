"""Starts round a plane, and which directions of it are proved to be held once they are long."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.experiments.studies.claim import Config
from attsvm.experiments.studies.shared.longer_walks import WalkRows
from attsvm.experiments.studies.shared.proof import selected
from attsvm.experiments.studies.shared.random_instances import drawn
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.theory.convergence.prover import Prover, prover
from attsvm.theory.optima import Optimality, local_optima, optimality

# Slack below this is rounding.
_TIGHT = 1e-7


def planar(seed: int, place: int) -> tuple[Tokens, Floats]:
    """A prompt of two entries: two inputs of five tokens, keys and values drawn apart."""
    draw = np.random.default_rng([seed, place, 2])
    X, keys = draw.standard_normal((2, 2, 5, 2))
    y = draw.choice([-1.0, 1.0], 2)
    return Tokens(X, keys=keys, labels=y), draw.standard_normal(2)


@dataclass(frozen=True, eq=False)
class PlanePoint:
    """An instance, the two directions (2, d, dq) that span the plane of its starts, and angles."""

    tokens: Tokens
    v: Floats
    axes: Floats
    angles: int
    lr: float

    @staticmethod
    def of(config: Config, kind: str, seed: int) -> PlanePoint:
        """The first draw of a seed with two locally optimal selections.

        plane: the plane of the prompt; slice: of W, through the solutions of two such selections.
        """
        place = 0
        while True:
            if kind == "plane":
                tokens, v = planar(seed, place)
            else:
                tokens, v = drawn(config["shape"], seed + 1000 * place)
            best = [o.certificate.W for _, o in local_optima(tokens, v).local if o.locally]
            if len(best) > 1:
                break
            place += 1
        axes = (
            np.eye(2)[:, :, None] if kind == "plane" else _orthonormal(*map(np.asarray, best[:2]))
        )
        return PlanePoint(tokens, v, axes, config["angles"], config["lr"])

    @cached_property
    def directions(self) -> Floats:
        """(A, d, dq), of norm 1."""
        turn = 2 * np.pi * (np.arange(self.angles) + 0.5) / self.angles
        return np.einsum("ka,kxy->axy", [np.cos(turn), np.sin(turn)], self.axes)

    def starts(self, norms: list[float]) -> Floats:
        """(R A, d, dq): all directions at the first norm, then at the next."""
        W = np.array(norms)[:, None, None, None] * self.directions
        return W.reshape(-1, *W.shape[2:])

    @cached_property
    def judge(self) -> Prover:
        """The Prover of normalized descent."""
        return prover(self.tokens, head=self.v, lr=self.lr)

    @cached_property
    def tops(self) -> Ints:
        """The tokens (A, n) of each direction."""
        return np.stack([selected(self.tokens, u) for u in self.directions])

    def verdict(self, alpha: Ints, known: dict[bytes, Optimality]) -> Optimality:
        """The verdict on a selection, kept in `known`."""
        key = np.asarray(alpha).tobytes()
        if key not in known:
            known[key] = optimality(self.tokens, Selection.of(self.tokens, alpha), self.v)
        return known[key]


def _orthonormal(first: Floats, second: Floats) -> Floats:
    one = first / np.linalg.norm(first)
    rest = second - (second * one).sum() * one
    return np.stack([one, rest / np.linalg.norm(rest)])


def limit_room(here: PlanePoint, u: Floats, found: Optimality) -> float:
    """The room of a direction u in the theorems' inequalities as the norm grows along u.

    With ρ taken out, P = ρp, p = q + f, q in the span of the tight rows and f free of it. The cone
    asks 1 + slack > ‖a⊥‖‖p‖ of all rows and slack > ‖a⊥‖‖p‖ of better tokens; the tube, for steps
    h < 1/(NL), 1 + slack + ⟨a, f⟩ > ‖a⊥‖‖q‖ of all rows, slack + ⟨a, f⟩ > ‖a⊥‖‖q‖ of better
    tokens and slack + ⟨a, f⟩ > 0 of the other rows that are not tight.
    """
    alpha = selected(here.tokens, u)
    rows = WalkRows.of([here.tokens], here.v[None], alpha[None])
    a, good = rows.a.reshape(-1, u.size), rows.gap.ravel() > 0
    best = np.asarray(found.certificate.W).ravel()
    square = float(best @ best)
    rho = float(u.ravel() @ best) / square
    if rho <= 0:
        return -np.inf
    slack = a @ best - 1
    across = a - np.outer(1 + slack, best) / square
    length = np.linalg.norm(across, axis=1)
    p = u.ravel() / rho - best
    tight = slack < _TIGHT
    _, s, basis = np.linalg.svd(a[tight], full_matrices=False)
    basis = basis[s > _TIGHT * s[0]]
    q = basis.T @ (basis @ p)
    at = np.where(tight, 0.0, a @ (p - q))
    far = length * np.linalg.norm(p)
    cone = min((1 + slack - far).min(), (slack - far)[~good].min(initial=np.inf))
    pairs = np.linalg.norm(across[good][:, None] - across[good], axis=2)
    if here.lr * np.sqrt(square) * pairs.max(initial=0.0) ** 2 / 4 >= 1:
        return float(cone)
    near = slack + at - length * np.linalg.norm(q)
    tube = min(
        (1 + near).min(),
        near[~good].min(initial=np.inf),
        (slack + at)[good & ~tight].min(initial=np.inf),
    )
    return float(max(cone, tube))
