"""Global and local optimality of a selection, with the witness; and all optima of a small problem.

The score of a token is γ_it = y_i v·x_it. A selection α is globally optimal when it holds the
highest score of every input, and locally optimal when every tight neighbour t of α_i (a token
whose margin is met with equality at the max-margin direction of α) has γ_iα > γ_it. Gradient
descent started far out and near that direction stays with it exactly in the second case; a run
that merely selects α may still leave it.

Theory: [tarzanagh2023maxmargin], [tarzanagh2023svm].
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints, vector
from attsvm._utils.expected import function, whole
from attsvm._utils.files import finite
from attsvm._utils.progress import Progress
from attsvm._utils.result import Result, Summary, Table, draw
from attsvm.certificate import Certificate
from attsvm.certificate.certificate import Tight
from attsvm.errors import BadSelection, ConvergenceWarning, Unsupported
from attsvm.norms import Norm, norm_of
from attsvm.problem import selection
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Kept, Selection
from attsvm.problem.tokens import Tokens, checked_tokens
from attsvm.solvers.frobenius.active_set import gram
from attsvm.solvers.frobenius.enumeration import MAYBE, Feasible, Walk, all_rows, walk
from attsvm.solvers.solve import solve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Kind = Literal["global", "local", "neither", "undecided", "infeasible"]
# Beyond this many selections an enumeration has to be asked for.
MOST = 10_000_000
# Selections that are walked over at once; they are kept in memory.
_AT_ONCE = 100_000


@dataclass(frozen=True, repr=False)
class Witness(Result):
    """A tight neighbour that decides: input, token, and γ_kept − γ_token.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> (witness,) = attsvm.optimality(tokens, [1], [0.2, 0.7]).witnesses
    >>> witness.input, witness.token, round(float(witness.score_gap), 3)
    (0, 0, -0.5)
    """

    input: int
    token: int
    score_gap: float

    def _card(self) -> Summary:
        said = f"token {self.token} of input {self.input}, score gap {self.score_gap:.6g}"
        return Summary("Witness", said, brief=True)


@dataclass(frozen=True, eq=False, repr=False)
class Optimality(Table):
    """Whether a selection is globally or locally optimal, and what shows it.

    kind is "infeasible" when it is proved exactly that no W selects these tokens, "undecided" when
    a neighbour is, or when only a bound on the norm of such a W is known: `message` says which.
    score_gap: the least γ_kept − γ_neighbour over tight neighbours (inf without any); positive
    exactly when locally optimal. witnesses: the neighbours that forbid or leave it undecided.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> found = attsvm.optimality(tokens, [1], [0.2, 0.7])
    >>> found.kind, found.message
    ('neither', 'a tight neighbour scores at least as high as the kept token: token 0 of input 0')
    """

    kind: Kind
    globally: bool
    locally: bool | None
    score_gap: float
    neighbours: tuple[Witness, ...]
    witnesses: tuple[Witness, ...]
    certificate: Certificate

    @property
    def message(self) -> str:
        """One sentence on what is known."""
        if self.certificate.W is None:
            return self.certificate.message
        said = ", ".join(f"token {w.token} of input {w.input}" for w in self.witnesses[:3])
        more = " and more" if len(self.witnesses) > 3 else ""
        return {
            "global": "the kept tokens have the highest scores",
            "local": "every tight neighbour has a lower score than the kept token",
            "neither": f"a tight neighbour scores at least as high as the kept token: {said}{more}",
            "undecided": f"it is not known whether better-scoring tokens are tight: {said}{more}"
            f"; a gap below {self.certificate.gap:.0e} (tol) may tell",
        }[self.kind]

    def columns(self) -> dict[str, Any]:
        """A row per tight neighbour, and per one that may be: least score gap first.

        input, token, γ_kept − γ_token, whether it is one of the witnesses that decide.
        """
        decides = set(self.witnesses)
        every = sorted({*self.neighbours, *decides}, key=lambda w: (w.score_gap, w.input, w.token))
        return {
            "input": [w.input for w in every],
            "token": [w.token for w in every],
            "score_gap": [w.score_gap for w in every],
            "decides": [w in decides for w in every],
        }

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain data for JSON; infinities and unknown values are None."""
        best = self.certificate
        found = {
            "kind": self.kind,
            "lower": best.lower,
            "upper": best.upper,
            "gap": best.gap,
            "score_gap": self.score_gap,
        }
        return dict(finite(found))

    def plot(self, *, ax: Any = None, style: str = "screen") -> Figure:
        """The score gaps of the tight neighbours, least first: none may be 0 or below.

        ax: axes to draw into, in their own style. style: "screen", or "paper" for a column.
        """
        return draw("optimality", self, ax=ax, style=style)

    def _card(self) -> Summary:
        facts = {
            "globally optimal": self.globally,
            "locally optimal": self.locally,
            "least score gap": self.score_gap,
            "tight neighbours": len(self.neighbours),
            "certificate": self.certificate.message,
        }
        return Summary("Optimality", f"{self.kind}: {self.message}", facts, self.columns())


def optimality(
    tokens: Tokens,
    keep: Kept,
    v: Any,
    norm: str | Norm = "frobenius",
    *,
    tol: float | None = None,
) -> Optimality:
    """Decide whether a selection is globally or locally optimal.

    Parameters
    ----------
    tokens : Tokens
    keep : Selection or array (n,)
        The kept token of each input.
    v : array (d,)
        The prediction head.
    norm : str or Norm, default: "frobenius"
    tol : float, optional
        The certified gap asked for; by default that of the norm. A smaller one decides more rows.

    Returns
    -------
    Optimality

    Examples
    --------
    >>> import attsvm
    >>> tokens = attsvm.Tokens(
    ...     [[[-0.1, 1, 1], [1, 0, 0.9], [0, 0, 0]]], keys=[[[-0.1, 1, 0], [1, 0, 0], [0, 0, 0]]]
    ... )
    >>> attsvm.optimality(tokens, [1], [0, 0, 1]).kind
    'local'
    """
    keep = Selection.of(tokens, keep)
    return verdict_on(tokens, keep, v, solve(Problem.of(tokens, keep), norm, tol=tol))


def verdict_on(tokens: Tokens, keep: Selection, v: Any, certificate: Certificate) -> Optimality:
    """The verdict on one selection under the head v that this certificate of its problem gives."""
    gaps, _ = score_gaps(tokens, keep.indices, v)
    present = tokens.present()
    rivals = present & ~keep.kept
    best = not bool((rivals & (gaps <= 0)).any())
    if certificate.W is None:
        kind: Kind = "infeasible" if certificate.proof == "exact" else "undecided"
        return Optimality(kind, best, None, np.nan, (), (), certificate)
    verdict = _tight(tokens, keep, certificate)
    rows = certificate.problem.rows

    def witness(k: int) -> Witness:
        i, t = int(rows[k, 0]), int(rows[k, 2])
        return Witness(i, t, float(gaps[i, t]))

    neighbours = tuple(witness(k) for k in verdict.rows)
    bad = gaps <= 0
    against = tuple(w for w in neighbours if bad[w.input, w.token])
    doubtful = tuple(
        w for w in map(witness, verdict.undecided.nonzero()[0].tolist()) if bad[w.input, w.token]
    )
    least = min((w.score_gap for w in neighbours), default=np.inf)
    if best:
        # No token beats the best one, so no neighbour can: nothing is left to decide.
        return Optimality("global", True, True, least, neighbours, (), certificate)
    if against:
        return Optimality("neither", False, False, least, neighbours, against, certificate)
    if doubtful:
        return Optimality("undecided", False, None, least, neighbours, doubtful, certificate)
    return Optimality("local", False, True, least, neighbours, (), certificate)


def _tight(tokens: Tokens, keep: Selection, certificate: Certificate) -> Tight:
    """The tight rows of a selection: with one query for all inputs, those of the prompt.

    W then acts by q = W z alone. The least norm of such a W is that of the column q times a
    constant, in ℓp norms and in those that rotations keep, and so the margins of a solution are
    those of the prompt's. As a prompt they are known at least as well, and the two forms of one
    instance get one verdict.
    """
    norm, z = certificate.norm, tokens.queries
    alike = norm.rotational or norm.entrywise
    if norm.euclidean or not alike or z.shape[1] == 1 or (z != z[0]).any():
        return certificate.tight
    same = Tokens(tokens.X, keys=tokens.keys, mask=tokens.mask, source=tokens.source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # what stops early decides less
        prompt = solve(Problem.of(same, keep), norm)
    return certificate.tight if prompt.W is None else prompt.tight


def score_gaps(tokens: Tokens, alpha: Ints, v: Any) -> tuple[Floats, Bools]:
    """γ_iα − γ_it (n, T) with their signs, 0 for exact ties, and which are ties up to rounding."""
    return selection.score_gaps(tokens, alpha, vector(v, tokens.d))


def unequal_scores(tokens: Tokens, best: Selection, v: Any) -> tuple[Ints, Bools]:
    """The first other token of each input (n,), and the others (n, T) whose scores differ from its
    score by more than rounding."""
    others = tokens.present() & ~best.kept
    first = np.where(others.any(axis=1), others.argmax(axis=1), best.indices)
    return first, others & ~score_gaps(tokens, first, v)[1]


@dataclass(frozen=True, eq=False, repr=False)
class Optima(Table):
    """Every feasible selection of a small problem and the locally optimal ones among them.

    total: number of selections; choices (K, n) the feasible ones with their least norms (K,);
    best: the globally optimal selection (n,); local: verdicts on the locally optimal (and
    undecided) ones, each with its certificate, least norm first; solves, infeasible: how many
    problems were solved and how many prefixes were cut as infeasible; norm: the name of the norm.
    """

    total: int
    choices: Ints
    least: Floats
    best: Ints
    local: tuple[tuple[tuple[int, ...], Optimality], ...]
    solves: int
    infeasible: int
    norm: str

    def columns(self) -> dict[str, Any]:
        """A row per feasible selection, least norm first.

        The selection, its least norm, whether it is globally and locally optimal (None: not
        decided), and the least score gap over its tight neighbours (nan where it is not known).
        """
        return self._rows(len(self.choices))

    def _rows(self, most: int) -> dict[str, Any]:
        verdicts, best = dict(self.local), tuple(self.best.tolist())
        order = np.argsort(self.least, kind="stable")[:most]
        chosen = [tuple(int(t) for t in self.choices[k]) for k in order]
        found = [verdicts.get(alpha) for alpha in chosen]
        return {
            "selection": chosen,
            "least_norm": self.least[order],
            "global": [alpha == best for alpha in chosen],
            "local": [False if one is None else one.locally for one in found],
            "score_gap": [np.nan if one is None else one.score_gap for one in found],
        }

    def to_dict(self, *, rows: int | None = None) -> dict[str, Any]:
        """The selections as plain data for JSON; infinities and unknown values are None.

        rows: how many selections are listed, those of least norm; all of them unless given.
        """
        table = self._rows(len(self.choices) if rows is None else whole(rows, "rows", least=0))
        words = {True: "yes", False: "no", None: "undecided"}
        verdicts = [verdict for _, verdict in self.local]
        listed = [
            {"alpha": alpha, "norm": least, "global": best, "local": words[local], "score_gap": gap}
            for alpha, least, best, local, gap in zip(*table.values(), strict=True)
        ]
        found = {
            "status": "optimal",
            "norm": self.norm,
            "selections": self.total,
            "feasible": len(self.choices),
            "locally_optimal": sum(verdict.locally is True for verdict in verdicts),
            "undecided": sum(verdict.locally is None for verdict in verdicts),
            "best": self.best.tolist(),
            "optima": [{"alpha": alpha, **verdict.to_dict()} for alpha, verdict in self.local],
            "list": listed,
            "solves": self.solves,
            "infeasible_prefixes": self.infeasible,
        }
        return dict(finite(found))

    def plot(self, *, ax: Any = None, style: str = "screen") -> Figure:
        """The least norm of every feasible selection, least first; optimal ones marked.

        ax: axes to draw into, in their own style. style: "screen", or "paper" for a column.
        """
        return draw("optima", self, ax=ax, style=style)

    def _card(self) -> Summary:
        said = (
            f"{self.total} selections, {len(self.choices)} feasible, "
            f"{sum(bool(o.locally) for _, o in self.local)} locally optimal"
        )
        facts = {"globally optimal": self.best, "problems solved": self.solves}
        return Summary("Optima", said, facts, self._rows(10), rows=len(self.choices), brief=True)


def local_optima(
    tokens: Tokens,
    v: Any,
    norm: str | Norm = "frobenius",
    *,
    most: int = MOST,
    progress: Progress | None = None,
) -> Optima:
    """Find all locally optimal selections of a small problem, each certified.

    Selections are walked input by input and a prefix for which the kernel finds no solution is cut:
    that is found in floats and not proved, unlike the verdicts on what is left. In Frobenius
    norm every feasible selection is solved by one kernel and only those without a clearly tight
    better neighbour are certified; in other norms every feasible selection is solved in turn.

    Parameters
    ----------
    tokens : Tokens
    v : array (d,)
        The prediction head.
    norm : str or Norm, default: "frobenius"
    most : int, default: 10,000,000
        More selections than this are refused.
    progress : function, optional
        Called with the share done.

    Returns
    -------
    Optima

    Examples
    --------
    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> [(alpha, verdict.kind) for alpha, verdict in attsvm.local_optima(tokens, [0.2, 0.7]).local]
    [((0,), 'global')]
    """
    geometry = norm_of(norm)
    most, progress = whole(most, "most", least=1), function(progress, "progress")
    total = count_selections(checked_tokens(tokens))
    if total > most:
        sizes = tokens.present().sum(axis=1)
        power = float(np.log10(sizes).sum())
        count = f"{total} selections" if power < 15 else f"about 10^{power:.0f} selections"
        shape = " x ".join(map(str, sizes)) if tokens.n <= 10 else f"{tokens.n} inputs"
        raise Unsupported(
            f"there are {count} ({shape}), more than {most}; raise `most`, or test single "
            "selections with optimality()"
        )
    best = Selection.best(tokens, v).indices
    feasible = _walk_all(tokens, v, total, progress)
    choices, least, verdict = feasible.choices, feasible.least, feasible.verdict
    local: list[tuple[tuple[int, ...], Optimality]] = []
    wanted = (
        np.arange(len(choices)) if not geometry.euclidean else ((verdict == MAYBE).nonzero()[0])
    )
    for step, k in enumerate(wanted):
        alpha = tuple(int(a) for a in choices[k])
        found = optimality(tokens, Selection.of(tokens, alpha), v, geometry)
        if not geometry.euclidean:
            least[k] = found.certificate.upper
        if found.kind not in ("neither", "infeasible"):
            local.append((alpha, found))
        if progress is not None:
            progress(0.5 + 0.5 * (step + 1) / len(wanted))
    local.sort(key=lambda pair: pair[1].certificate.upper)
    counts = feasible.solves, feasible.infeasible
    return Optima(total, choices, least, best, tuple(local), *counts, geometry.name)


def count_selections(tokens: Tokens) -> int:
    """How many selections of one token per input there are."""
    total = 1
    for size in tokens.present().sum(axis=1):
        total *= int(size)
    return total


def _walk_all(tokens: Tokens, v: Any, total: int, progress: Progress | None) -> Feasible:
    """All feasible selections, their Frobenius norms, the kernel's verdicts, and counts."""
    source = np.arange(tokens.n) if tokens.source is None else tokens.source
    keys = np.asarray(tokens.keys, dtype=np.float64)[source]
    D, owner, places, count = all_rows(keys, tokens.mask)
    if not len(D):
        raise BadSelection("every input has one token: nothing is left to separate")
    norms = np.linalg.norm(D, axis=1) * np.linalg.norm(tokens.queries, axis=1)[owner]
    # A choice whose key another token of the input shares cannot win: its row is zero.
    allowed = tokens.present()
    for row in (norms == 0).nonzero()[0]:
        allowed = allowed & ~(places == row).any(axis=2)
    if not allowed.any(axis=1).all():
        i = int((~allowed.any(axis=1)).argmax())
        raise BadSelection(f"no token of input {i} can win: keys coincide, or its query is zero")
    norms = np.where(norms > 0, norms, 1.0)
    there = tokens.present()
    pairs = there[:, :, None] & there[:, None, :] & ~np.eye(tokens.T, dtype=bool)
    every = (score_gaps(tokens, np.full(tokens.n, a), v)[0] for a in range(tokens.T))
    gap = np.stack(list(every), axis=1)[pairs]  # in the order of all_rows
    rank = keys.shape[2] * tokens.queries.shape[1]
    G = gram(D, tokens.queries, owner, norms)
    task = Walk(G, 1.0 / norms, places, count, allowed, gap, rank)
    starts = np.empty((1, 0), np.int64)
    if tokens.n > 2:
        starts = np.indices((tokens.T, tokens.T)).reshape(2, -1).T
    share = max(1, _AT_ONCE * len(starts) // total)
    parts = []
    for k in range(0, len(starts), share):
        parts.append(walk(task, starts[k : k + share]))
        if progress is not None:
            progress(0.5 * min(1.0, (k + share) / len(starts)))
    return Feasible(
        np.concatenate([part.choices for part in parts]),
        np.concatenate([part.least for part in parts]),
        np.concatenate([part.verdict for part in parts]),
        *(
            sum(getattr(part, name) for part in parts)
            for name in ("solves", "infeasible", "stopped")
        ),
    )
