"""What claims work with: training, solving and other searches, which a ledger can follow.

Everything that takes time and ends in a result goes through these functions; what a check needs to
know again (the instances, their premises) is computed as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from attsvm.certificate import Certificate, certify
from attsvm.claims.claim import Result
from attsvm.claims.shared.late_steps import recorded_run, replayed_run
from attsvm.claims.shared.ledger import LEDGER, OPEN, SOLVED, Doubt, Ledger, Piece
from attsvm.doors import train as train_in_full
from attsvm.ground.arrays import Bools, Floats
from attsvm.language.sentences import Sentences
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.problem.tokens import Tokens
from attsvm.solvers import front, many
from attsvm.training.path import Path

_T = TypeVar("_T")
# A solution on file proves enough when its gap is at most so many times the norm's own tolerance.
_SLACK = 100.0
# Digits on file are taken for those of the certificate when they are so near, each by itself.
_FILED = 1e-10


def train(tokens: Tokens | Sequence[Tokens] | Sentences, **given: Any) -> Path:
    """The Path of `attsvm.train` with these arguments; `steps` must be among them."""
    ledger = OPEN.get()
    if ledger is None:
        return train_in_full(tokens, **given)
    if ledger.saved is None:
        return recorded_run(ledger, tokens, given)
    return replayed_run(ledger, tokens, given)


def measured(
    compute: Callable[[list[int]], Result],
    shapes: dict[str, tuple[int, ...]],
    *,
    count: int = 1,
    axis: int = 0,
    kind: str = "run",
    steady: Bools | None = None,
) -> Result:
    """Arrays of these shapes that some other search found: compute(which), of these instances.

    count: how many instances there are, along `axis` of every array where they are more than one;
    each can be computed by itself. kind: that of the pieces, in WITHIN. steady: where, along the
    first axis, another processor finds the same numbers; a replay does not know the others.
    """
    ledger = OPEN.get()
    every = list(range(count))
    if ledger is None:
        return compute(every)
    _, full = ledger.call(count, kind)
    if ledger.saved is None:
        return compute(every)
    out = {name: np.full(shape, np.nan) for name, shape in shapes.items()}
    if full:
        for name, found in compute(full).items():
            if count == 1:
                out[name][...] = found
            else:
                np.moveaxis(out[name], axis, 0)[full] = np.moveaxis(found, axis, 0)
            if steady is not None and ledger.chosen is not None:
                out[name][~steady] = np.nan
    return out


def searched(
    search: Callable[[], _T], read: Callable[[_T], Result], shapes: dict[str, tuple[int, ...]]
) -> Result:
    """The arrays of these shapes that `read` takes from one search."""
    return measured(lambda which: read(search()), shapes, kind="search")


def recalled(name: str, value: Any) -> Any:
    """A value that follows from more of a run than is kept: in a replay the one on file.

    A replay does not vouch for it: the check of the claim must, or must not rest on it.
    """
    ledger = OPEN.get()
    if ledger is None:
        return value
    name = f"{LEDGER}recalled.{name}"
    if ledger.saved is None:
        ledger.arrays[name] = np.asarray(value)
        return value
    return value if ledger.chosen is None else ledger.read(name)


def solve(problem: Problem, norm: str | Norm = "frobenius") -> Certificate:
    """The Certificate of `attsvm.solve`; in a replay what the solution on file supports."""
    return _certified([problem], norm, lambda: [front.solve(problem, norm)])[0]


def solve_many(problems: Sequence[Problem], norm: str | Norm = "frobenius") -> list[Certificate]:
    """The Certificates of `attsvm.solve_many`; in a replay what the solutions on file support."""
    return _certified(problems, norm, lambda: many.solve_many(list(problems), norm))


def _certified(
    problems: Sequence[Problem], norm: str | Norm, solved: Callable[[], list[Certificate]]
) -> list[Certificate]:
    ledger = OPEN.get()
    if ledger is None:
        return solved()
    if ledger.saved is None or ledger.chosen is None or SOLVED not in ledger.saved:
        found = solved()
        ledger.solved += found
        return found
    out = []
    for problem in problems:
        out.append(_from_file(ledger, problem, norm))
        ledger.solved.append(out[-1])
    return out


def _from_file(ledger: Ledger, problem: Problem, norm: str | Norm) -> Certificate:
    """What the next solution on file proves. One that proves nothing is solved for again: if that
    succeeds, the one on file was tampered with."""
    number = len(ledger.solved)
    piece: Piece = ("solve", number, 0)
    ledger.pieces.append(piece)
    places = ledger.read(SOLVED)
    if number >= len(places):
        raise Doubt("the run solves more problems than there are solutions on file")
    where = str(places[number])
    if not where:
        return front.solve(problem, norm)
    name, _, place = where.rpartition("|")
    b = int(place)
    W, lam, mu = (np.asarray(ledger.read(f"{name}.{x}"))[b] for x in ("W", "multipliers", "ties"))
    known = None if np.isnan(W).any() else W
    found = certify(problem, norm, known, lam[: problem.m], mu[: problem.ties])
    if _proves(found):
        ledger.proved.add((name, b))
        if piece not in (ledger.chosen or ()):
            return _as_filed(found, W, lam[: problem.m])
    fresh = front.solve(problem, norm)
    if _proves(fresh) not in ("", _proves(found)):
        raise Doubt(
            f"solution {b} of {name} is {found.status} as it is on file, and {fresh.status} when "
            "it is solved for again"
        )
    return found


def _as_filed(found: Certificate, W: Floats, multipliers: Floats) -> Certificate:
    """The certificate with the digits on file where those differ by rounding alone.

    Certifying scales the pair once more, which moves last digits; a run that starts from W and is
    not stable would end elsewhere.
    """
    pairs = ((found.W, W), (found.multipliers, multipliers))
    if any(a is None or not np.allclose(a, b, rtol=_FILED, atol=0.0) for a, b in pairs):
        return found
    return replace(found, W=W, multipliers=multipliers)


def _proves(found: Certificate) -> str:
    """What the certificate proves: a solution, that there is none, or nothing."""
    if found.status == "inseparable":
        return "none"
    enough = found.W is not None and found.gap <= _SLACK * found.norm.tolerance
    return "solution" if enough else ""


def place(name: str, certificates: Sequence[Certificate]) -> None:
    """Note that these solutions are kept in the result under this name, in this order."""
    ledger = OPEN.get()
    if ledger is not None:
        ledger.places |= {id(c): f"{name}|{b}" for b, c in enumerate(certificates)}
