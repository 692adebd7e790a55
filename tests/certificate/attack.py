"""Problems built to break a certificate, in every norm, each claim judged independently.

    python -m tests.certificate.attack [COUNT] [FIRST]

COUNT problem and norm pairs from pair FIRST on. Prints every pair with a claim that is not TRUE and
the statuses of each family; ends with 1 when a claim is FALSE or anything was raised that is not
one of the library's own errors.
"""

from __future__ import annotations

import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm import certify, solve, solve_many
from attsvm.errors import AttsvmError, ConvergenceWarning
from tests.certificate.families import Case, case
from tests.certificate.independent import FALSE, Claim, Truth, judge, tight_claim
from tests.certificate.whole import combined, power

NORMS = (
    "frobenius", "nuclear", "spectral", "max", "l1", "l1.1", "l1.5", "l1.75", "l2", "l3", "l10"
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What one pair came to: its status in words, the claims that are not TRUE, and a crash."""

    pair: int
    family: str
    norm: str
    status: str
    claims: tuple[Claim, ...] = ()
    crash: str = ""

    @property
    def false(self) -> list[Claim]:
        """The claims that are refuted."""
        return [claim for claim in self.claims if claim.verdict == FALSE]

    @property
    def wrong(self) -> bool:
        """Whether a claim is refuted or something was raised."""
        return bool(self.false or self.crash)

    def __str__(self) -> str:
        reasons = "; ".join(f"{c.name} {c.verdict}: {c.reason}" for c in self.claims)
        return f"pair {self.pair}, {self.family}, {self.norm}: {self.status}; {reasons}{self.crash}"


@dataclass
class Attack:
    """The cases by seed, kept while their norms are gone through."""

    seed: int = -1
    made: Case | None = None
    truth: Truth | None = None

    def run(self, pair: int) -> Outcome:
        """The outcome of pair number `pair`: case pair // 11 in norm pair % 11."""
        seed, norm = pair // len(NORMS), NORMS[pair % len(NORMS)]
        if seed != self.seed:
            self.seed, self.made = seed, case(seed)
            made = self.made
            self.truth = None if made.problem is None else truth_of(made)
        assert self.made is not None
        return outcome(pair, self.made, self.truth, norm)


def truth_of(made: Case) -> Truth:
    """What is known of a case; an AssertionError when it is not what it was built to be."""
    truth = Truth(made.problem, feasible=made.feasible, points=made.points, weights=made.weights)
    if made.least is not None:
        G, worth, exponent = combined(truth.rows, made.weights[0])
        W = np.array([int(v) for v in made.least.flat], dtype=object)
        assert all(G * power(exponent) == W) and worth * power(exponent) == W.dot(W)
    return truth


def certificate_of(made: Case, norm: str) -> tuple[Any, Any]:
    """The certificate to judge, and the W that was handed over for it (None when solved)."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        if made.hand is not None:
            W, lam, mu = made.hand(norm)
            budget = np.inf if made.budget is None else made.budget
            found = certify(made.problem, norm, W, lam, mu, budget=budget)
            return found, np.asarray(W, dtype=float)
        if norm != "frobenius" or made.budget is not None or not made.route:
            return solve(made.problem, norm, C=made.budget), None
        if made.route == "many":
            return solve_many([made.problem, made.problem])[1], None
        return solve(made.problem, norm, solver=made.route), None


def outcome(pair: int, made: Case, truth: Truth | None, norm: str) -> Outcome:
    """Solve or certify, and judge."""
    route = made.route if norm == "frobenius" and made.hand is None else ""
    name = " ".join(word for word in (made.family, made.note, route) if word)
    if truth is None:
        return Outcome(pair, name, norm, "refused")
    try:
        certificate, handed = certificate_of(made, norm)
        tight = tight_claim(certificate, truth) if not np.isfinite(certificate.budget) else None
    except AttsvmError as error:
        if str(error).strip():
            return Outcome(pair, name, norm, "refused")
        return Outcome(pair, name, norm, "CRASHED", crash="an error without a sentence")
    except Exception:
        return Outcome(pair, name, norm, "CRASHED", crash=traceback.format_exc(limit=-4))
    claims = judge(certificate, truth, handed=handed)
    if tight is not None:
        claims.append(tight)
    open_claims = tuple(claim for claim in claims if claim.verdict != "TRUE")
    word = f" {certificate.proof}" if certificate.status == "infeasible" else ""
    return Outcome(pair, name, norm, certificate.status + word, open_claims)


def main() -> int:
    """Run and print; the exit code."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    attack, wrong = Attack(), 0
    counts: Counter[tuple[str, str]] = Counter()
    start = time.process_time()
    for pair in range(first, first + count):
        found = attack.run(pair)
        counts[found.family.split()[0], found.status] += 1
        wrong += found.wrong
        if found.wrong or found.claims:
            print(found)
    for (family, status), number in sorted(counts.items()):
        print(f"{family:20s} {status:20s} {number:6d}")
    spent = time.process_time() - start
    print(f"{count} pairs, {wrong} with a false claim or a crash; {spent:.0f} s of CPU")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
