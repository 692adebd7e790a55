"""example: one of the papers' instances, written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.files import write_arrays
from attsvm.cli.options import NAMES, command
from attsvm.cli.output import emit, many
from attsvm.datasets import EXAMPLES, FAMILIES, SENTENCES, TEXTS
from attsvm.errors import Unsupported


@command("multi-input --out tokens.npz")
def example_command(
    name: str, out: Path, seed: int | None = None, force: bool = False, json_: bool = False
) -> None:
    """Write one of the papers' instances as a problem file, or sentences as a text file.

    Arguments
    ---------
    name : NAME
        One of {examples}.

    Options
    -------
    out : FILE
        The .npz file, or .txt of sentences.
    seed : N, at least 0, default: 0
        Seed of a random family.
    """
    report: dict[str, Any] = {"status": "optimal", "example": name, "file": str(out)}
    if name in SENTENCES or (name in TEXTS and seed is None):
        from attsvm.next_token.text import write_lines

        lines: list[Any] = TEXTS[name]() if name in TEXTS else SENTENCES[name](seed=seed or 0)
        write_lines(out, lines, force=force)
        said, report["lines"] = many(len(lines), "line"), len(lines)
    else:
        if name not in NAMES["examples"]:
            raise Unsupported(f"unknown example {name!r}: known are {', '.join(NAMES['examples'])}")
        if seed is not None and name not in FAMILIES:
            drawn = ", ".join((*FAMILIES, *SENTENCES))
            raise Unsupported(f"example {name!r} is fixed and takes no --seed; {drawn} do")
        arrays = EXAMPLES[name]() if seed is None else EXAMPLES[name](seed=seed)
        write_arrays(out, arrays, force=force)
        report["arrays"] = {key: list(np.shape(array)) for key, array in arrays.items()}
        said = ", ".join(f"{key} {tuple(shape)}" for key, shape in report["arrays"].items())
    emit(report, json_, f"wrote {out}: {said}")
