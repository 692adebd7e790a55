"""example: one of the papers' instances, written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from attsvm._utils.files import write_arrays
from attsvm.cli.options import Force, Json, app, option
from attsvm.cli.output import emit, many
from attsvm.datasets import EXAMPLES, FAMILIES, SENTENCES, TEXTS
from attsvm.errors import Unsupported

_EXAMPLES = (*EXAMPLES, *SENTENCES, *TEXTS)


@app.command("example", epilog="Example: attsvm example multi-input --out tokens.npz")
def example_command(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(_EXAMPLES)}.")],
    out: Annotated[Path, option("--out", "FILE", "The .npz file, or .txt of sentences.")],
    seed: Annotated[
        int | None, option("--seed", "N", "Seed of a random family.", min=0, show_default="0")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write one of the papers' instances as a problem file, or sentences as a text file."""
    report: dict[str, Any] = {"status": "optimal", "example": name, "file": str(out)}
    if name in SENTENCES or (name in TEXTS and seed is None):
        from attsvm.next_token.text import write_lines

        lines: list[Any] = TEXTS[name]() if name in TEXTS else SENTENCES[name](seed=seed or 0)
        write_lines(out, lines, force=force)
        said, report["lines"] = many(len(lines), "line"), len(lines)
    else:
        if name not in _EXAMPLES:
            raise Unsupported(f"unknown example {name!r}: known are {', '.join(_EXAMPLES)}")
        if seed is not None and name not in FAMILIES:
            drawn = ", ".join((*FAMILIES, *SENTENCES))
            raise Unsupported(f"example {name!r} is fixed and takes no --seed; {drawn} do")
        arrays = EXAMPLES[name]() if seed is None else EXAMPLES[name](seed=seed)
        write_arrays(out, arrays, force=force)
        report["arrays"] = {key: list(np.shape(array)) for key, array in arrays.items()}
        said = ", ".join(f"{key} {tuple(shape)}" for key, shape in report["arrays"].items())
    emit(report, as_json, f"wrote {out}: {said}")
