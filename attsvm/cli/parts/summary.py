"""Results as plain data that a program may read, and as tables for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import numbers
from attsvm.errors import BadTokens

if TYPE_CHECKING:
    from rich.table import Table

    from attsvm.certificate import Certificate
    from attsvm.certificate.verify import Check
    from attsvm.norms import Norm
    from attsvm.problem.problem import Problem
    from attsvm.theory.limits import Limit
    from attsvm.theory.optima import Optima


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
        "moved": number(best.moved),
    }


def describe_check(check: Check) -> dict[str, Any]:
    """The verdict of a recomputation; infinities are None."""
    lower, upper = number(check.lower), number(check.upper)
    return {"ok": check.ok, "reason": check.reason, "lower": lower, "upper": upper}


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


def check_solution(arrays: dict[str, Any], path: Path) -> None:
    """Raises BadTokens unless a solution file has its arrays, each of the right kind."""
    for name in ("W", "multipliers"):
        if name not in arrays:
            raise BadTokens(f"{path} has no array {name}; is it a solution file?")
    for name in ("W", "multipliers", "tie_multipliers", "lower", "upper", "C"):
        if name in arrays:
            numbers(arrays[name], f"{path}: {name}")
    for name in ("lower", "upper", "C", "norm", "status", "problem"):
        if name in arrays and arrays[name].ndim:
            raise BadTokens(f"{path}: {name} has shape {arrays[name].shape}; it must be one value")
    if "C" in arrays and not float(arrays["C"]) > 0:
        raise BadTokens(f"{path}: C is {float(arrays['C'])}: a budget must be positive")


def check_rows(problem: Problem, arrays: dict[str, Any], path: Path) -> None:
    """Raises BadTokens unless the solution's rows are those of the problem."""
    if arrays["W"].shape != problem.shape:
        raise BadTokens(f"{path}: W is {arrays['W'].shape}, the problem needs {problem.shape}")
    counts = (("multipliers", problem.m, "margins"), ("tie_multipliers", problem.ties, "ties"))
    for name, count, what in counts:
        if name in arrays and arrays[name].shape != (count,):
            raise BadTokens(f"{path}: {arrays[name].size} {name} for {count} {what}")
    for name, rows in (("rows", problem.rows), ("ties", problem.tie_rows)):
        if name in arrays and not np.array_equal(arrays[name], rows):
            raise BadTokens(
                f"{path}: its {name} are not those of this problem (another selection?)"
            )


def claims_beyond(arrays: dict[str, Any], found: Certificate) -> str:
    """What a solution file claims beyond what its own W and multipliers support."""
    slack = 1e-12
    lower = float(arrays.get("lower", 0.0))
    upper = float(arrays.get("upper", np.inf))
    claimed = str(arrays.get("status", found.status))
    if claimed == "infeasible" and found.status != "infeasible":
        return f"it claims that no W exists, the multipliers prove only lower {found.lower!r}"
    # Written so that a claim of NaN is refused.
    if not lower <= found.lower * (1 + slack):
        return f"it claims lower {lower!r}, the multipliers prove {found.lower!r}"
    if not upper >= found.upper * (1 - slack):
        return f"it claims upper {upper!r}, W has {found.upper!r}"
    return ""


def finite(value: Any) -> Any:
    """Nested plain data with None for every infinity and NaN."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [finite(entry) for entry in value]
    return number(value) if isinstance(value, float) else value


def number(value: Any) -> float | None:
    """A float for JSON, None for infinities and NaN."""
    return float(value) if np.isfinite(value) else None


def certificate_table(report: dict[str, Any], title: str) -> Table:
    """The table of one certificate, W included when it is small."""
    from rich.table import Table

    table = Table(title=title, show_header=False)
    for key in ("status", "message", "lower", "upper", "gap", "rank", "proof", "claims", "seconds"):
        if report.get(key) is not None:
            value = report[key]
            table.add_row(key, f"{value:.12g}" if isinstance(value, float) else str(value))
    check = report.get("exact")
    if check is not None:
        said = "holds" if check["ok"] else f"fails: {check['reason']}"
        table.add_row("exact check", f"ran in rational arithmetic: {said}")
    W = report["W"]
    if W is not None and len(W) * len(W[0]) <= 64:
        table.add_row("W", "\n".join("  ".join(f"{x: .6f}" for x in row) for row in W))
    tight = report["tight"]
    sure, open_ = len(tight["rows"]), len(tight["undecided"])
    table.add_row("tight rows", f"{sure}, {open_} undecided ({tight['how']})")
    return table


def optima_table(report: dict[str, Any]) -> Table:
    """The table of all selections, the first 40 of those listed."""
    from rich.table import Table

    title = f"{report['feasible']} of {report['selections']} selections are feasible"
    table = Table("selection", "least norm", "global", "local", "score gap", title=title)
    for row in report["list"][:40]:
        gap = row["score_gap"]
        table.add_row(
            " ".join(map(str, row["alpha"])),
            f"{row['norm']:.6g}",
            "yes" if row["global"] else "",
            row["local"],
            "" if gap is None else f"{gap:.4g}",
        )
    return table


def tour_table(rows: list[dict[str, Any]]) -> Table:
    """The table of one selection in every norm."""
    from rich.table import Table

    heads = ("norm", "lower", "upper", "gap", "rank", "exact check")
    table = Table(*heads, title="One selection, every norm")
    for row in rows:
        table.add_row(
            row["norm"],
            f"{row['lower']:.9f}",
            f"{row['upper']:.9f}",
            f"{row['gap']:.1e}",
            str(row["rank"]),
            "holds" if row["exact"] else "fails",
        )
    return table


_MARKS = {True: "holds", False: "fails", None: "not checked"}


def describe_limit(limit: Limit) -> dict[str, Any]:
    """What a report says of a predicted limit: its status, what is left of it here, and why."""
    return {
        "model": limit.model,
        "optimizer": limit.optimizer,
        "norm": limit.norm,
        "status": limit.status,
        "established": limit.established,
        "word": limit.word,
        "premises": [
            {"name": p.name, "holds": p.holds, "detail": p.detail, "needed": p.needed}
            for p in limit.premises
        ],
    }


def limit_rows(table: Table, limit: dict[str, Any]) -> None:
    """Add the predicted limit to a table, and a short line for each premise."""
    where = f"{limit['norm']} norm" if limit["norm"] else "no known norm"
    table.add_row("predicted limit", f"optimizer {limit['optimizer']}: {where} ({limit['word']})")
    lines = [f"{_MARKS[p['holds']]}: {p['name']}" for p in limit["premises"]]
    if lines:
        table.add_row("premises", "\n".join(lines))
