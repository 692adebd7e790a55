"""Thousands of random problems through every norm, each claim rechecked in exact arithmetic.

    python -m tests.torture.run [COUNT] [FIRST] [SOLVER] [TOL]

Prints the counts; ends with 1 when any claim is refuted or anything is raised.
"""

from __future__ import annotations

import sys
import time
import traceback
import warnings
from collections import Counter

import numpy as np

from attsvm import ConvergenceWarning, norm_of, solve
from attsvm.solvers import SOLVERS
from tests.torture.instances import Case, case

NORMS = ("frobenius", "l1.5", "l3", "l1", "max", "nuclear", "spectral")


def check(
    made: Case, norm: str, *, solver: str | None = None, tol: float | None = None
) -> tuple[str, str]:
    """The status of one solve and what is wrong with it ('' when nothing is)."""
    try:
        best = solve(made.problem, norm, solver=solver, tol=tol)
        verdict = best.verify(exact=True)
    except Exception:
        return "crash", traceback.format_exc(limit=3)
    status = best.status
    if status == "infeasible":
        # Exact arithmetic may fail to find the vector; it must not find a solution.
        return (status if verdict.ok else "infeasible, numerical only"), ""
    if status == "stalled":
        refuted = verdict.reason.startswith(("lower is", "the multipliers prove that no W"))
        return status, verdict.reason if refuted else ""
    return status, verdict.reason


def main() -> int:
    """Run and print; the exit code."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    solver = sys.argv[3] if len(sys.argv) > 3 else None
    tol = float(sys.argv[4]) if len(sys.argv) > 4 else None
    norms = [n for n in NORMS if solver is None or SOLVERS[solver].takes(norm_of(n))]
    totals: Counter[tuple[str, str]] = Counter()
    wrong, worst = [], {}
    facts: Counter[str] = Counter()
    start = time.process_time()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for seed in range(first, first + count):
        made = case(seed, large=seed % 5 < 2)
        facts["over 100 margins"] += made.problem.m > 100
        facts["ties or zero right-hand sides"] += not made.problem.scalable
        for norm in norms:
            clock = time.process_time()
            status, reason = check(made, norm, solver=solver, tol=tol)
            worst[norm] = max(worst.get(norm, 0.0), time.process_time() - clock)
            totals[norm, status] += 1
            if reason:
                wrong.append((seed, made.kind, norm, status, reason))
                print(seed, made.kind, made.scale, norm, status, reason, flush=True)
            elif status == "stalled":
                print(seed, made.kind, made.scale, norm, "stalled", made.problem, flush=True)
    print(dict(facts))
    for norm in norms:
        row = {status: n for (name, status), n in sorted(totals.items()) if name == norm}
        print(f"{norm:10s} {row}  slowest {worst[norm]:.2f} s")
    print(f"{count} problems, {len(wrong)} refuted or crashed, {time.process_time() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    np.seterr(all="warn")
    sys.exit(main())
