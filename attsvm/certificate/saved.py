"""Certificates on disk: all that a recheck needs, in one `.npz` file without pickles.

The file holds the rows of the problem, the pair (W, λ, μ) and what is claimed of it. Loading checks
that the arrays fit each other and believes no claim: `load(path).verify(exact=True)` is the recheck
here, `tools/check_certificate.py` the one that shares no code with this package.
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.arrays import floats
from attsvm._utils.expected import file_path
from attsvm._utils.files import load_arrays, write_arrays
from attsvm.certificate.certificate import Certificate
from attsvm.errors import BadTokens, Unsupported
from attsvm.norms import Norm, is_listed, norm_of
from attsvm.problem.problem import Problem

VERSION = 1

# The arrays of a file besides its version: by what they hold, with their number of axes.
_TEXT = {"norm": 0, "status": 0, "proof": 0, "farkas": 1}
_INDICES = ("hi", "lo", "query", "tie_hi", "tie_lo", "tie_query")
_WHOLE = {**dict.fromkeys(_INDICES, 1), "width": 0}
_NUMBERS = ("lower", "upper", "tolerance", "budget", "residual", "reach", "moved")
_REAL = {
    **{"keys": 2, "queries": 2, "b": 1, "c": 1, "c_error": 1},
    **{"W": 2, "multipliers": 1, "tie_multipliers": 1},
    **dict.fromkeys(_NUMBERS, 0),
}
# These may be infinite: nothing feasible is known, no budget, a proof that no W exists.
_INFINITE = ("lower", "upper", "budget")
_STATUSES = ("optimal", "infeasible", "stalled")
_PROOFS = ("", "numerical", "exact")
# Keys keep their places, so that rows keep their names, up to this many places a key in use.
_PLACES = 16
_INTEGER = re.compile("-?[0-9]+")


def save(certificate: Certificate, path: str | Path, *, force: bool = False) -> None:
    """Write the certificate as an `.npz` file without pickles, in one move.

    The norm is saved by its name: one of the library's comes back by it, any other is given again.
    """
    name = certificate.norm.name
    if is_listed(name) and norm_of(name) != certificate.norm:
        raise Unsupported(
            f"the norm {name!r} of this certificate is not the library's norm of that name: "
            "give it another name"
        )
    write_arrays(file_path(path, "path"), arrays(certificate), force=force)


def arrays(certificate: Certificate) -> dict[str, Any]:
    """All that a saved certificate holds, by name."""
    problem, W = certificate.problem, certificate.W
    farkas = [] if certificate.farkas is None else certificate.farkas.tolist()  # m + l integers
    return {
        "attsvm_certificate": np.int64(VERSION),
        "norm": np.str_(certificate.norm.name),
        **_rows(problem),
        "queries": np.asarray(problem.queries, np.float64),
        "query": problem.query.astype(np.int64),
        "b": problem.b,
        "tie_query": problem.tie_query.astype(np.int64),
        "c": problem.c,
        "c_error": problem.c_error,
        "W": np.empty((0, 0)) if W is None else np.asarray(W, np.float64),
        "multipliers": certificate.multipliers,
        "tie_multipliers": certificate.tie_multipliers,
        **{name: np.float64(getattr(certificate, name)) for name in _NUMBERS},
        "status": np.str_(certificate.status),
        "proof": np.str_(certificate.proof or ""),
        "farkas": np.array([str(Decimal(value)) for value in farkas], dtype=np.str_),
    }


def _rows(problem: Problem) -> dict[str, Any]:
    """The keys that rows use, and the rows' indices among them.

    With a width T a key's place says which token of which input it is: unused keys are then left
    zero in their places. Where that would take far more space than the keys in use, these are
    numbered anew and the width is dropped: the rows are the same, their names are not.
    """
    sides = (problem.hi, problem.lo, problem.tie_hi, problem.tie_lo)
    every = np.concatenate(sides).astype(np.int64)
    used = np.unique(every[every >= 0])
    places = int(used[-1]) + 1 if len(used) else 0
    width = problem.width if places <= _PLACES * len(used) else 0
    if width:
        keys = np.zeros((places, problem.shape[0]))
        keys[used] = problem.keys[used]
    else:
        keys = np.asarray(problem.keys[used], np.float64)
        every = np.where(every >= 0, np.searchsorted(used, every), -1)
    cuts = np.cumsum([len(side) for side in sides])[:-1]
    hi, lo, tie_hi, tie_lo = np.split(every, cuts)
    return {
        "keys": keys,
        "hi": hi,
        "lo": lo,
        "tie_hi": tie_hi,
        "tie_lo": tie_lo,
        "width": np.int64(width),
    }


def load(path: str | Path, *, norm: Norm | None = None) -> Certificate:
    """The certificate in a file: what it claims, of the problem it holds. Raises BadTokens when
    an array is missing, of another kind or shape than the others need, or not finite.

    norm: the object of a norm that is not the library's, which a file only names.
    """
    file = file_path(path, "path")
    found = load_arrays(file)
    version = found.get("attsvm_certificate")
    if version is None:
        raise BadTokens(f"{file} is not a saved certificate: it has no array attsvm_certificate")
    if version.dtype.kind not in "iu" or version.ndim or int(version) != VERSION:
        raise BadTokens(
            f"{file} has certificate format {version.tolist()!r}; this version reads {VERSION}"
        )
    missing = [name for name in (*_TEXT, *_WHOLE, *_REAL) if name not in found]
    if missing:
        raise BadTokens(f"{file} is not a complete certificate: it has no array {missing[0]}")
    _check_kinds(file, found)
    problem = _problem(file, found)
    _check_claims(file, found, problem)
    geometry = _norm(file, str(found["norm"]), norm)
    farkas = None
    if len(found["farkas"]):
        farkas = np.empty(len(found["farkas"]), dtype=object)
        farkas[:] = [int(Decimal(str(digits))) for digits in found["farkas"]]
    values: dict[str, Any] = {name: float(found[name]) for name in _NUMBERS}
    return Certificate(
        problem,
        geometry,
        found["W"] if found["W"].size else None,
        found["multipliers"],
        found["tie_multipliers"],
        status=str(found["status"]),  # type: ignore[arg-type]  # one of _STATUSES
        proof=str(found["proof"]) or None,  # type: ignore[arg-type]  # one of _PROOFS
        farkas=farkas,
        **values,
    )


def _check_kinds(file: Path, found: dict[str, Any]) -> None:
    """Raises BadTokens unless every array has its type and number of axes, and is finite."""
    kinds = ((_TEXT, "U", "text"), (_WHOLE, "iu", "integers"), (_REAL, "f", "float64 numbers"))
    for names, kind, what in kinds:
        for name, axes in names.items():
            array = found[name]
            if array.dtype.kind not in kind or (names is _REAL and array.dtype.itemsize != 8):
                raise BadTokens(f"{file}: {name} has type {array.dtype}; it must hold {what}")
            if array.ndim != axes:
                raise BadTokens(f"{file}: {name} has shape {array.shape}; it must have {axes} axes")
    for name in _REAL:
        array = found[name]
        wrong = np.isnan(array) | (array == -np.inf if name in _INFINITE else np.isinf(array))
        if wrong.any():
            raise BadTokens(f"{file}: {name} holds {float(array[wrong].flat[0])}; give numbers")


def _problem(file: Path, found: dict[str, Any]) -> Problem:
    """The problem in the file. Raises BadTokens unless its arrays fit each other."""
    keys, queries = (floats(found[name], f"{file}: {name}") for name in ("keys", "queries"))
    m, l = len(found["hi"]), len(found["tie_hi"])
    groups = (
        (m, ("hi", "lo", "query", "b", "multipliers")),
        (l, ("tie_hi", "tie_lo", "tie_query", "c", "c_error", "tie_multipliers")),
    )
    for size, names in groups:
        for name in names:
            if len(found[name]) != size:
                raise BadTokens(f"{file}: {name} has {len(found[name])} entries for {size} rows")
    for name in _INDICES:
        least = -1 if name.endswith("lo") else 0
        count = len(queries) if name.endswith("query") else len(keys)
        wrong = (found[name] < least) | (found[name] >= count)
        if wrong.any():
            value = int(found[name][wrong][0])
            raise BadTokens(
                f"{file}: {name} holds {value}; indices run from {least} to {count - 1}"
            )
    for name in ("b", "c_error"):
        if (found[name] < 0).any():
            raise BadTokens(f"{file}: {name} has a negative entry")
    if int(found["width"]) < 0:
        raise BadTokens(f"{file}: width is {int(found['width'])}; it must not be negative")
    fields = {name: found[name].astype(np.int64) for name in _INDICES}
    fields |= {name: floats(found[name], f"{file}: {name}") for name in ("b", "c", "c_error")}
    return Problem(keys, queries, **fields, width=int(found["width"]))


def _check_claims(file: Path, found: dict[str, Any], problem: Problem) -> None:
    """Raises BadTokens unless the claims are of the kind a certificate can make."""
    shape = found["W"].shape
    if shape not in (problem.shape, (0, 0)):
        raise BadTokens(f"{file}: W is {shape}, the problem needs {problem.shape}")
    status, proof = str(found["status"]), str(found["proof"])
    if status not in _STATUSES:
        raise BadTokens(f"{file}: unknown status {status!r}; known are {', '.join(_STATUSES)}")
    if proof not in _PROOFS or bool(proof) != (status == "infeasible"):
        raise BadTokens(f"{file}: proof is {proof!r} with status {status}")
    for name in ("tolerance", "budget"):
        if not found[name] > 0:
            raise BadTokens(f"{file}: {name} is {float(found[name])}; it must be positive")
    size = len(found["farkas"])
    if size not in (0, problem.m + problem.ties):
        raise BadTokens(f"{file}: farkas has {size} entries for {problem.m + problem.ties} rows")
    if not all(_INTEGER.fullmatch(digits) for digits in found["farkas"]):
        raise BadTokens(f"{file}: farkas has an entry that is not an integer")


def _norm(file: Path, name: str, given: Norm | None) -> Norm:
    """The norm of this name: the library's, or the one given. Raises BadTokens without one."""
    if given is not None:
        if norm_of(given).name != name:
            raise BadTokens(f"{file} is a certificate in norm {name!r}, not {given.name!r}")
        return given
    try:
        return norm_of(name)
    except Unsupported as error:
        raise BadTokens(
            f"{file}: {error}; a user-defined norm has to be given: load(file, norm=…), or --norm "
            "FILE.py:NAME"
        ) from error
