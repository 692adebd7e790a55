"""The audit of an inspection: whether the figures on file are those that its model and text give.

Nothing in results.json is trusted. First it must agree with itself (`audit.own`): what is summed up
must be what its rows give, every figure must be possible, and the page must be the one it makes.
Then model and text are read again, their digests are compared, and a random part of the heads is
captured and measured anew (`audit.again`). Whoever invents a whole file does not know which heads
will be asked for.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

from attsvm.errors import Unsupported
from attsvm.lens.audit.again import Places, chosen_heads, measured_again
from attsvm.lens.audit.own import own_doubts
from attsvm.lens.audit.row import row_of
from attsvm.lens.audit.shown import page_checks
from attsvm.lens.page.folder import PAGE, read_folder

# The share of the heads that is measured again, unless another is asked for.
SHARE = 0.1


def audit_inspection(
    folder: str | Path,
    *,
    share: float = SHARE,
    seed: int | None = None,
    places: Places = Places(),  # noqa: B008
) -> dict[str, Any]:
    """{seed, share, seconds, heads, again, agrees, rows: [{what, agrees, figures, doubts}]}.

    folder: what `attsvm inspect --out` wrote. share: of the heads, in (0, 1]; at least one is
    measured again. seed: of their choice, drawn and reported without one. places: where the model,
    the earlier one and the text are now, unless they are where results.json says.
    """
    if not 0 < share <= 1:
        raise Unsupported(f"share is {share:g}: it must be above 0 and at most 1")
    seed = secrets.randbits(32) if seed is None else seed
    report = read_folder(Path(folder))
    began = time.perf_counter()
    rows, again = own_doubts(report), 0
    if all(row.agrees for row in rows):  # else no rerun can mend them
        rows.append(row_of(PAGE, page_checks(Path(folder), report)))
        chosen = chosen_heads(report, share, seed)
        anew = measured_again(report, chosen, places)
        again = len(chosen) if len(anew) > 1 else 0
        rows += anew
    heads = report.get("heads")
    return {
        "seed": seed,
        "share": share,
        "seconds": time.perf_counter() - began,
        "heads": len(heads) if isinstance(heads, list) else 0,
        "again": again,
        "agrees": all(row.agrees for row in rows),
        "rows": [row.as_json() for row in rows],
    }
