"""Known to be false: Theorem 3 without its premises."""

from __future__ import annotations

from attsvm.experiments.statements.parts.along import confirm_rise, rise_along
from attsvm.experiments.statements.parts.facts import best_tokens, facts_of
from attsvm.experiments.statements.statement import Field, Instance, Space, Statement


def premises(one: Instance) -> bool:
    """The best tokens are unique and can be kept."""
    best = best_tokens(one)
    return best is not None and facts_of(one, best) is not None


STATEMENT = Statement(
    "falls-along-solution",
    title="The loss falls along W^mm without premises",
    says="−⟨∇L(W), W^mm⟩ > 0 at every W whenever the best tokens are unique and separable "
    "(Theorem 3 of v1 with neither B.1 nor B.2).",
    kind="false",
    space=Space(
        {"n": (1, 2), "T": (2, 3), "d": (1, 2)},
        (Field("X", ("n", "T", "d")), Field("v", ("d",)), Field("p0", ("d",), scale=2.0)),
    ),
    premises=premises,
    violation=rise_along,
    confirm=confirm_rise,
    lines=(
        "best = attsvm.solve(attsvm.Problem.of(attsvm.Tokens(X), (X @ v).argmax(axis=1)))",
        "s = np.exp(X @ p0) / np.exp(X @ p0).sum(axis=1, keepdims=True)",
        "f = (s * (X @ v)).sum(axis=1)",
        "print(-np.einsum('n,nt,ntd,d->', 1 / (1 + np.exp(f)), s * (X @ v - f[:, None]), X,"
        " best.W[:, 0]))",
    ),
    proves="W^mm in rationals, the slope in sixty digits",
)
