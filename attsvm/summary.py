"""Results as plain data: what the command line prints and a program may read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from attsvm.certificate import Certificate
from attsvm.errors import BadTokens
from attsvm.norms import Norm
from attsvm.optima import Optima
from attsvm.problem import Problem


def describe(best: Certificate) -> dict[str, Any]:
    """What every report of a certificate holds; infinities and unknowns are None."""
    verdict = best.tight
    names = best.problem.rows
    return {
        "status": best.status,
        "message": best.message,
        "norm": best.norm.name,
        "W": None if best.W is None else best.W.tolist(),
        "value": None if best.W is None else number(float(best.norm.value(best.W))),
        "lower": number(best.lower),
        "upper": number(best.upper),
        "gap": number(best.gap),
        "C": number(best.budget),
        "margins": best.margins.tolist(),
        "multipliers": best.multipliers.tolist(),
        "rows": names.tolist(),
        "tight": {
            "rows": names[verdict.tight].tolist(),
            "undecided": names[verdict.undecided].tolist(),
            "how": verdict.how,
        },
        "rank": best.rank,
        "proof": best.proof,
        "residual": number(best.residual),
    }


def describe_optima(found: Optima, norm: Norm, rows: int) -> dict[str, Any]:
    """What a report of all selections holds, the `rows` of least norm listed one by one."""
    verdicts = dict(found.local)
    best = tuple(found.best.tolist())
    listed = []
    for k in np.argsort(found.least, kind="stable")[:rows]:
        alpha = tuple(int(a) for a in found.choices[k])
        verdict = verdicts.get(alpha)
        locally = False if verdict is None else verdict.locally
        listed.append(
            {
                "alpha": list(alpha),
                "norm": number(found.least[k]),
                "global": alpha == best,
                "local": "undecided" if locally is None else "yes" if locally else "no",
                "score_gap": None if verdict is None else number(verdict.score_gap),
            }
        )
    optima = [
        {
            "alpha": list(alpha),
            "kind": verdict.kind,
            "lower": number(verdict.certificate.lower),
            "upper": number(verdict.certificate.upper),
            "gap": number(verdict.certificate.gap),
            "score_gap": number(verdict.score_gap),
        }
        for alpha, verdict in found.local
    ]
    return {
        "status": "optimal",
        "norm": norm.name,
        "selections": found.total,
        "feasible": len(found.choices),
        "locally_optimal": sum(verdict.locally is True for _, verdict in found.local),
        "undecided": sum(verdict.locally is None for _, verdict in found.local),
        "best": list(best),
        "optima": optima,
        "list": listed,
        "solves": found.solves,
        "infeasible_prefixes": found.infeasible,
    }


def check_rows(problem: Problem, arrays: dict[str, Any], path: Path) -> None:
    """An error when the solution's rows are not those of the problem."""
    if arrays["W"].shape != problem.shape:
        raise BadTokens(f"{path}: W is {arrays['W'].shape}, the problem needs {problem.shape}")
    if arrays["multipliers"].shape != (problem.m,):
        count = arrays["multipliers"].size
        raise BadTokens(f"{path}: {count} multipliers for {problem.m} margins")
    if "rows" in arrays and not np.array_equal(arrays["rows"], problem.rows):
        raise BadTokens(f"{path}: its rows are not those of this problem (another selection?)")


def claims_beyond(arrays: dict[str, Any], found: Certificate) -> str:
    """What a solution file claims beyond what its own W and multipliers support."""
    slack = 1e-12
    if found.status == "inseparable":
        return ""
    if "lower" in arrays and float(arrays["lower"]) > found.lower * (1 + slack):
        return f"it claims lower {float(arrays['lower'])!r}, the multipliers prove {found.lower!r}"
    if "upper" in arrays and float(arrays["upper"]) < found.upper * (1 - slack):
        return f"it claims upper {float(arrays['upper'])!r}, W has {found.upper!r}"
    return ""


def number(value: Any) -> float | None:
    """A float for JSON, None for infinities and NaN."""
    return float(value) if np.isfinite(value) else None
