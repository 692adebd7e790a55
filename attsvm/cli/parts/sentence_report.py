"""What a training run on sentences is reported as for a reader."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from attsvm.cli.parts import summary


def run_table(report: dict[str, Any], title: str) -> Table:
    """The report for a reader."""
    table = Table(title=title, show_header=False)
    faults = ", ".join(f"{n} {kind}" for kind, n in report["faults"].items() if n)
    table.add_row("realizable", "yes" if report["realizable"] else f"no: {faults}")
    for key in ("loss", "infimum", "excess", "decoder_loss", "top_optimal"):
        if report[key] is not None:
            table.add_row(key.replace("_", " "), f"{report[key]:.8g}")
    for name, best in report["certificates"].items():
        for key in ("steps", "norm", "correlation", "margin_share"):
            value = report[key][name]
            if value is not None:
                shown = f"{value:.8g}" if isinstance(value, float) else str(value)
                table.add_row(f"{name} {key.replace('_', ' ')}", shown)
        table.add_row(f"{name} certificate", best["message"])
    summary.limit_rows(table, report["limit"])
    if report["proof"] is not None:
        table.add_row("convergence of W_kq", f"this run: {report['proof']['message']}")
    seen = report["unseen"]
    if seen is not None:
        table.add_row(
            "unseen sentences",
            f"{seen['sentences']}: {seen['wide']} have a gap of {seen['gap']:g} or more, "
            f"{seen['agreed']} of these are answered as the solution says; {seen['ties']} are ties",
        )
    table.add_row("seconds", f"{report['seconds']:.3g}")
    return table
