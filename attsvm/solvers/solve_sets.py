"""Problems made of others: the relaxed prompt problem, and a kept set of which one must win."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attsvm._utils.arrays import Bools, Ints
from attsvm._utils.expected import positive, whole
from attsvm._utils.result import Result, Summary
from attsvm.certificate import Certificate
from attsvm.errors import BadSelection, NotConverged
from attsvm.norms import Norm, norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Kept, Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve


def support_inputs(tokens: Tokens, keep: Kept, *, norm: str | Norm = "frobenius") -> Bools:
    """The inputs (n,) whose kept token supports the decoder: y_i v·x_iα = 1 at the best v.

    Read off certified tight rows. Raises NotConverged, with the input, where one stays undecided.
    """
    return supporting(solve(Problem.of_labels(tokens, keep), norm))


def supporting(labels: Certificate) -> Bools:
    """The support inputs (n,) by the certificate of `Problem.of_labels`."""
    verdict = labels.require().tight
    if verdict.undecided.any():
        i = int(verdict.undecided.argmax())
        raise NotConverged(
            f"whether input {i} supports the decoder is undecided at gap {labels.gap:.1e}; "
            "give the right-hand sides as b"
        )
    return verdict.tight


def relaxed(tokens: Tokens, keep: Kept, *, norm: str | Norm = "frobenius") -> Problem:
    """The relaxed problem of joint training: right-hand side 1 on support inputs, 0 elsewhere.

    Theory: the limit of the prompt when the decoder is trained too [tarzanagh2023maxmargin].

    >>> import attsvm
    >>> from attsvm.datasets import EXAMPLES
    >>> a = EXAMPLES["joint-relaxed"]()
    >>> tokens = attsvm.Tokens(a["X"], labels=a["y"])
    >>> problem = attsvm.relaxed(tokens, a["alpha"])
    >>> (attsvm.solve(problem).W.ravel() + 0.0).round(9)
    array([1., 0.])
    """
    return Problem.of(tokens, keep, b=support_inputs(tokens, keep, norm=norm).astype(float))


@dataclass(frozen=True, eq=False, repr=False)
class SetChoice(Result):
    """The best of the convex problems 'one member of each kept set wins'.

    winners (n,), the certificate of their problem, and `lower`: a bound below the least norm
    over all choices; solved, total: how many problems were solved, and how many choices there are.
    When every choice is proved infeasible, winners is the last prefix (its first inputs' winners)
    that was, with its proof: one of several, all found on the way; `lower` is then inf if all of
    them are exact. A choice with a numerical proof counts with the norm up to which it is one.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> found = attsvm.solve_sets(tokens, [[0, 1]])
    >>> found.winners, found.solved, found.total
    (array([0]), 2, 2)
    >>> round(found.certificate.upper, 6)
    1.0
    """

    winners: Ints
    certificate: Certificate
    lower: float
    solved: int
    total: int

    @property
    def gap(self) -> float:
        """upper/lower − 1 over all choices."""
        return self.certificate.upper / self.lower - 1 if 0 < self.lower < np.inf else np.inf

    def _card(self) -> Summary:
        facts = {
            "winners": self.winners,
            "norm at most": self.certificate.upper,
            "over all choices at least": self.lower,
            "solved": f"{self.solved:,} problems for {self.total:,} choices",
        }
        return Summary("SetChoice", self.certificate.message, facts)


def solve_sets(
    tokens: Tokens,
    sets: Kept,
    norm: str | Norm = "frobenius",
    *,
    tol: float | None = None,
    most: int = 100_000,
) -> SetChoice:
    """The least norm at which some member of each input's kept set beats every dropped token.

    A union of convex problems, one for each choice of winners. Winners are fixed input by input;
    the rows of the first inputs alone bound every choice that starts so from below, and a branch
    whose bound reaches the best norm found is cut, and so is one proved infeasible; with a
    numerical proof its bound stays in `lower`. At most `most` problems are solved.

    Theory: nonlinear heads, as recalled [tarzanagh2023maxmargin].

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> found = attsvm.solve_sets(tokens, [[0, 1]])  # token 0 or token 1 must beat token 2
    >>> found.winners, round(found.certificate.upper, 6)
    (array([0]), 0.5)
    """
    sets = Selection.of(tokens, sets)
    geometry = norm_of(norm)
    goal = geometry.tolerance if tol is None else positive(tol, "tol")
    most = whole(most, "most", least=1)
    members = [np.flatnonzero(row) for row in sets.kept]
    total = int(np.prod([float(len(m)) for m in members]))
    best: tuple[Ints, Certificate] | None = None
    proof: tuple[tuple[int, ...], Certificate] | None = None
    lower = np.inf
    solved = 0

    def bound(start: tuple[int, ...]) -> Certificate | None:
        """The certificate of the rows of the inputs in `start`; None when they have none."""
        winners = np.array([*start, *(m[0] for m in members[len(start) :])])
        try:
            problem = Problem.any_of(tokens, sets, winners)
        except BadSelection:
            return None
        rows = problem.query < len(start)
        if not rows.any():
            return None
        part = problem if rows.all() else problem.part(rows)
        return solve(part, geometry, tol=goal)

    open_: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    while open_:
        known, start = open_.pop()
        if best is not None and known >= best[1].upper / (1 + goal):
            lower = min(lower, known)
            continue
        children = []
        for member in members[len(start)]:
            if solved >= most:
                raise NotConverged(
                    f"{solved} problems were solved without an end ({total} choices); "
                    "raise `most` or keep fewer tokens"
                )
            child = (*start, int(member))
            found = bound(child)
            solved += 1
            if found is not None and found.status == "infeasible":
                proof = (child, found)
                lower = min(lower, found.lower)  # inf where the proof is exact
                continue
            value = 0.0 if found is None else found.lower
            if len(child) < len(members):
                children.append((value, child))
            elif found is not None:
                lower = min(lower, found.lower)
                if best is None or found.upper < best[1].upper:
                    best = (np.array(child), found)
        open_.extend(sorted(children, reverse=True))  # the least bound is taken first
    if best is None:
        if proof is None:
            raise BadSelection("every token is kept: nothing is left to separate")
        return SetChoice(np.array(proof[0]), proof[1], lower, solved, total)
    return SetChoice(best[0], best[1], min(lower, best[1].lower), solved, total)
