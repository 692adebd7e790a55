"""What a training run on sentences is reported, saved and drawn as."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any

from rich.table import Table

from attsvm._utils.files import write_arrays
from attsvm.cli.output import limit_facts
from attsvm.next_token.problems import Columns
from attsvm.next_token.training.outcome import SentenceOutcome
from attsvm.next_token.training.runs import SentenceRun


def describe_run(found: SentenceOutcome) -> dict[str, Any]:
    """What a report of a run holds; what is not known is None."""
    run = found.run
    paths = {"W_kq": run.attention, "W_ov": run.decoder}
    return {
        "status": found.status,
        "model": run.model,
        "realizable": found.realizability.realizable,
        "faults": found.realizability.counts,
        "sentences": run.data.size,
        "vocabulary": run.data.vocabulary,
        "dimension": int(run.E.shape[1]),
        "loss": found.loss,
        "infimum": found.infimum,
        "excess": found.excess,
        "decoder_loss": found.decoder_loss,
        "norm": dict(found.norm),
        "correlation": dict(found.correlation),
        "margin_share": dict(found.margin_share),
        "certificates": {
            name: {
                "status": best.status,
                "norm": best.pieces[0].norm.name if best.pieces else None,
                "lower": best.lower,
                "upper": best.upper,
                "gap": best.gap,
                "message": message(best),
            }
            for name, best in found.certificates.items()
        },
        "top_optimal": found.top_optimal,
        "limit": found.limit.to_dict(),
        "proof": None if found.proof is None else found.proof.to_dict(),
        "steps": {name: int(path.steps[-1]) for name, path in paths.items() if path is not None},
        "diverged": {name: path.diverged for name, path in paths.items() if path is not None},
    }


def message(best: Columns) -> str:
    """One sentence on what is proved, in the norm of the problem."""
    return best.pieces[0].message if best.times == (1,) else best.message


def save_run(run: SentenceRun, file: FilePath, *, force: bool) -> None:
    """Write the run as one .npz file: the last stage's path, which `Path.load` reads, and E; after
    two stages also the decoder's arrays as decoder.NAME, and its end W_ov."""
    arrays: dict[str, Any] = {"E": run.E} | run.last.arrays()
    if run.decoder is not None and run.decoder is not run.last:
        arrays |= {f"decoder.{key}": array for key, array in run.decoder.arrays().items()}
        arrays["W_ov"] = run.ends["W_ov"]
    write_arrays(file, arrays, force=force)


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
    for name, shown in limit_facts(report["limit"]).items():
        table.add_row(name, shown)
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
