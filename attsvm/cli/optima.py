"""optima: every selection, and which of them are optimal."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from attsvm._utils.progress import bar
from attsvm.cli.options import command, read_norm
from attsvm.cli.output import emit
from attsvm.cli.output import rows as table_of
from attsvm.errors import BadTokens


@command("tokens.npz --json")
def optima_command(
    file: Path,
    norm: str = "frobenius",
    most: int = 10**7,
    rows: int = 1000,
    json_: bool = False,
) -> None:
    """Every selection: feasible, globally and locally optimal, with least norms.

    Options
    -------
    most : N, at least 1
        Refuse more selections than this.
    rows : N, at least 0
        Selections listed at most, of least norm.
    """
    from attsvm.cli.problem_file import read_problem
    from attsvm.theory.optima import count_selections, local_optima

    archive = read_problem(file)
    if "v" not in archive.arrays:
        raise BadTokens(f"{file} has no array v: optimality needs a prediction head for the scores")
    geometry = read_norm(norm)
    total = count_selections(archive.tokens)
    if sys.stderr.isatty():
        print(f"{total:,} selections", file=sys.stderr)
    start = time.perf_counter()
    with bar("selections") as progress:
        found = local_optima(
            archive.tokens, archive.arrays["v"], geometry, most=most, progress=progress
        )
    report = found.to_dict(rows=rows) | {"seconds": time.perf_counter() - start}
    table = table_of(
        ("selection", "least norm", "global", "local", "score gap"),
        (
            (
                " ".join(map(str, row["alpha"])),
                f"{row['norm']:.6g}",
                "yes" if row["global"] else "",
                row["local"],
                "" if row["score_gap"] is None else f"{row['score_gap']:.4g}",
            )
            for row in report["list"][:40]
        ),
        title=f"{report['feasible']} of {report['selections']} selections are feasible",
    )
    emit(report, json_, table)
