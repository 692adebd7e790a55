"""What a notebook shows of a result."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from attsvm.certificate import Certificate


def certificate_table(certificate: Certificate) -> str:
    """The certificate as an HTML table; everything in it is escaped."""
    p, upper = certificate.problem, certificate.upper if np.isfinite(certificate.upper) else None
    shape = f"{p.shape[0]} × {p.shape[1]}, rank {certificate.rank}"
    cells = [
        ("status", certificate.status),
        ("norm", certificate.norm.name),
        ("lower", f"{certificate.lower:.12g}"),
        ("upper", "none" if upper is None else f"{upper:.12g}"),
        ("gap", f"{certificate.gap:.1e}" if np.isfinite(certificate.gap) else "unknown"),
        ("rows", f"{p.m} margins, {p.ties} ties"),
        ("W", shape),
    ]
    rows = "".join(f"<tr><th>{k}</th><td>{html.escape(str(v))}</td></tr>" for k, v in cells)
    return f"<table><caption>attsvm certificate</caption>{rows}</table>"
