"""A certificate as a table: what a notebook shows of it, and its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.summary import Summary

if TYPE_CHECKING:
    from attsvm.certificate import Certificate


def number(value: float) -> float | None:
    """A float for JSON: None for infinities and NaN."""
    return float(value) if np.isfinite(value) else None


def certificate_dict(certificate: Certificate) -> dict[str, Any]:
    """A certificate as plain data; infinities and unknowns are None."""
    W, verdict, rows = certificate.W, certificate.tight, certificate.problem.rows
    return {
        "status": certificate.status,
        "message": certificate.message,
        "norm": certificate.norm.name,
        "W": None if W is None else W.tolist(),
        "value": None if W is None else number(certificate.norm.value(W)),
        "lower": number(certificate.lower),
        "upper": number(certificate.upper),
        "gap": number(certificate.gap),
        "C": number(certificate.budget),
        "margins": certificate.margins.tolist(),
        "multipliers": certificate.multipliers.tolist(),
        "rows": rows.tolist(),
        "tight": {
            "rows": rows[verdict.tight].tolist(),
            "undecided": rows[verdict.undecided].tolist(),
            "how": verdict.how,
        },
        "rank": certificate.rank,
        "proof": certificate.proof,
        "residual": number(certificate.residual),
        "moved": number(certificate.moved),
    }


def certificate_card(certificate: Certificate) -> Summary:
    """What is shown of a certificate."""
    p = certificate.problem
    finite = np.isfinite(certificate.upper)
    facts = {
        "status": certificate.status,
        "norm": certificate.norm.name,
        "lower": f"{certificate.lower:.12g}",
        "upper": f"{certificate.upper:.12g}" if finite else "none",
        "gap": f"{certificate.gap:.1e}" if np.isfinite(certificate.gap) else "unknown",
        "rows": f"{p.m:,} margins, {p.ties:,} ties",
        "W": f"{p.shape[0]} × {p.shape[1]}"
        + ("" if certificate.W is None else f", rank {certificate.rank}"),
    }
    return Summary("Certificate", certificate.message, facts, brief=True)


def row_columns(certificate: Certificate) -> dict[str, Any]:
    """The rows of a certificate, margins and then ties, as columns of a table."""
    p, verdict = certificate.problem, certificate.tight
    names = np.concatenate([p.rows, p.tie_rows]).reshape(-1, 3)
    margins = np.full(p.m, np.nan) if certificate.W is None else certificate.margins
    ties = np.full(p.ties, np.nan) if certificate.W is None else p.tie_values(certificate.W)
    tight = np.select([verdict.tight, verdict.loose], ["tight", "loose"], "undecided")
    return {
        "kind": ["margin"] * p.m + ["tie"] * p.ties,
        "input": names[:, 0],
        "kept": names[:, 1],
        "dropped": names[:, 2],
        "b": np.concatenate([p.b, p.c]),
        "margin": np.concatenate([margins, ties]),
        "multiplier": np.concatenate([certificate.multipliers, certificate.tie_multipliers]),
        "tight": [*tight.tolist(), *["tie"] * p.ties],
    }
