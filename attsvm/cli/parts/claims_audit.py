"""reproduce --audit: a part of every claim run again, and compared with what is saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attsvm.cli.parts.claims_live import watching
from attsvm.cli.parts.options import FAILED, print_json


def show_audit(
    claims: list[str], *, out: Path, seed: int | None, share: float | None, jobs: int, as_json: bool
) -> None:
    """Audit the folder and print what was found; leave with the code of a failure where it is."""
    from attsvm.reproduce import chosen_ids
    from attsvm.reproduce.audit import SHARE, audit

    with watching(chosen_ids(claims)) as (watch, say):
        found = audit(
            claims, out=out, seed=seed, share=SHARE if share is None else share, jobs=jobs,
            watch=watch, say=say,
        )  # fmt: skip
    apart = [row["id"] for row in found["claims"] if not row["agrees"]]
    if as_json:
        print_json({"status": "failed" if apart else "done", **found})
    else:
        _print(found, apart)
    if apart:
        raise typer.Exit(FAILED)


def _print(found: dict[str, Any], apart: list[str]) -> None:
    """The claims in one line each, and what was done in all."""
    table = Table(box=None, pad_edge=False)
    for head in ("claim", "rerun", "run again", "of", "within", "seconds"):
        justify: Any = "left" if head in ("claim", "rerun") else "right"
        table.add_column(head, no_wrap=True, justify=justify)
    for row in found["claims"]:
        state = Text("agrees", "green") if row["agrees"] else Text("differs", "bold red")
        within = "–" if row["within"] is None else f"{row['within']:.0e}"
        numbers = (str(row["rerun"]), str(row["pieces"]), within, f"{row['seconds']:.1f}")
        table.add_row(row["id"], state, *numbers)
    Console(markup=False).print(table)
    count, rerun = len(found["claims"]), sum(row["rerun"] for row in found["claims"])
    print(
        f"{count - len(apart)} of {count} claims agree with a rerun of {rerun} pieces of "
        f"{sum(row['pieces'] for row in found['claims'])}, chosen by --seed {found['seed']}, in "
        f"{found['seconds']:.0f} s"
    )
    if apart:
        print(f"not what their run makes: {', '.join(apart)}")
