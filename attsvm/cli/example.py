"""example: one of the papers' instances, written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from attsvm._utils.files import write_arrays
from attsvm.cli.parts.options import Force, Json, app, print_json
from attsvm.datasets import EXAMPLES, FAMILIES, SENTENCES, TEXTS
from attsvm.errors import Unsupported

_EXAMPLES = (*EXAMPLES, *SENTENCES, *TEXTS)


@app.command("example", epilog="Example: attsvm example multi-input --out tokens.npz")
def example_command(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(_EXAMPLES)}.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The .npz file, or .txt of sentences.")
    ],
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", min=0, help="Seed, for random families.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write one of the papers' instances as a problem file, or sentences as a text file."""
    from attsvm.next_token.text import write_lines

    if name in SENTENCES or (name in TEXTS and seed is None):
        lines: list[Any] = TEXTS[name]() if name in TEXTS else SENTENCES[name](seed=seed or 0)
        write_lines(out, lines, force=force)
        if as_json:
            print_json(
                {
                    "status": "optimal",
                    "example": name,
                    "file": str(out),
                    "lines": len(lines),
                }
            )
        else:
            print(f"wrote {out}: {len(lines)} lines")
        return
    if name not in _EXAMPLES:
        raise Unsupported(f"unknown example {name!r}: known are {', '.join(_EXAMPLES)}")
    if seed is not None and name not in FAMILIES:
        drawn = ", ".join((*FAMILIES, *SENTENCES))
        raise Unsupported(f"example {name!r} is fixed and takes no seed; {drawn} do")
    arrays = EXAMPLES[name]() if seed is None else EXAMPLES[name](seed=seed)
    write_arrays(out, arrays, force=force)
    shapes = {key: list(np.shape(array)) for key, array in arrays.items()}
    report = {"status": "optimal", "example": name, "file": str(out), "arrays": shapes}
    if as_json:
        print_json(report)
    else:
        listed = ", ".join(f"{k} {tuple(np.shape(a))}" for k, a in arrays.items())
        print(f"wrote {out}: {listed}")
