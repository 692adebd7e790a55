"""Whole results invented by somebody who sees the folder's files, and nothing else.

Nothing of the library is used here: arrays are read and written as .npz members, and digests are
made to fit with hashlib. A run is found by its record one step before the end, which lies beside
the result; the place of its end in the result is where the nearest direction of its shape is.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path

import numpy as np

LEDGER = "ledger."


def read(folder: Path, name: str) -> dict[str, np.ndarray]:
    """The arrays of a claim on file."""
    with np.load(folder / "claims" / f"{name}.npz") as archive:
        return dict(archive)


def write(folder: Path, name: str, arrays: dict[str, np.ndarray], *, fit: bool = True) -> None:
    """Put these arrays in place of a claim's; fit: make the digests of its record fit them."""
    members = {}
    with zipfile.ZipFile(folder / "claims" / f"{name}.npz", "w") as archive:
        for key, a in arrays.items():
            content = io.BytesIO()
            np.save(content, a, allow_pickle=False)
            members[key] = content.getvalue()
            archive.writestr(f"{key}.npy", members[key])
    if fit:
        file = folder / "claims" / f"{name}.json"
        record = json.loads(file.read_text("utf-8"))
        record["arrays"] = {k: hashlib.sha256(m).hexdigest() for k, m in members.items()}
        file.write_text(json.dumps(record), "utf-8")


def runs(arrays: dict[str, np.ndarray]) -> list[str]:
    """The names of the records before the end, (B, ...) each."""
    return [k for k in arrays if k.startswith(LEDGER) and k.split(".")[1].isdigit()
            and "state" not in k and "after" not in k]  # fmt: skip


def solutions(arrays: dict[str, np.ndarray]) -> list[str]:
    """The names of the arrays of solutions: those with multipliers beside them."""
    return [k.removesuffix("multipliers") + "W" for k in arrays if k.endswith(".multipliers")]


def _unit(a: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(a.reshape(len(a), -1), axis=1)
    return a.reshape(len(a), -1) / np.where(size > 0, size, 1.0)[:, None]


def ends(arrays: dict[str, np.ndarray]) -> list[tuple[str, tuple[int, ...], str, int]]:
    """(array, place of the end in it, run, instance) of every run whose end is in the result."""
    known, found = set(solutions(arrays)), []
    for run in runs(arrays):
        shape = arrays[run].shape[1:]
        before = _unit(arrays[run])
        for name, a in arrays.items():
            lead = a.ndim - len(shape)
            if name.startswith(LEDGER) or name in known or a.dtype.kind != "f" or lead < 0:
                continue
            if a.shape[lead:] != shape or not a.size:
                continue
            rows = _unit(np.nan_to_num(a).reshape(-1, *shape))
            for b, one in enumerate(before):
                k = int((rows @ one).argmax())
                if rows[k] @ one > 1 - 1e-3:
                    place = np.unravel_index(k, a.shape[:lead]) if lead else ()
                    found.append((name, tuple(map(int, place)), run, b))
    return found


def _toward(arrays: dict[str, np.ndarray], wanted: np.ndarray) -> np.ndarray:
    """The direction of the solution on file that is nearest to this matrix; else some direction."""
    best, most = np.random.default_rng(0).standard_normal(wanted.shape), -np.inf
    for name in solutions(arrays):
        a = arrays[name] if arrays[name].ndim == 3 else arrays[name][None]
        for W in a if a[0].size == wanted.size else ():
            if np.isfinite(W).all() and np.linalg.norm(W) > 0:
                cosine = float(W.ravel() @ wanted.ravel()) / np.linalg.norm(W)
                if cosine > most:
                    best, most = W.reshape(wanted.shape), cosine
    return best / np.linalg.norm(best)


def straight(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every run whose end is found: t · solution at all records and one step before the end."""
    out = {k: np.array(a) for k, a in arrays.items()}
    lengths = {len(a): a for k, a in arrays.items() if k.endswith("steps") and a.ndim == 1}
    for name, place, run, b in ends(arrays):
        end = arrays[name][place]
        ray = np.linalg.norm(end) * _toward(arrays, end)
        out[name][place] = ray
        last = 1000.0
        for axis, at in enumerate(place):
            steps = lengths.get(arrays[name].shape[axis])
            if steps is not None and at == len(steps) - 1 and steps[-1] > 0:
                last = float(steps[-1])
                for r, t in enumerate(steps):
                    if t > 0:
                        out[name][(*place[:axis], r, *place[axis + 1 :])] = t / last * ray
        size = np.linalg.norm(arrays[run][b])
        out[run][b] = (1 - 1 / last) * size * ray / np.linalg.norm(ray)
    return out


def random_ends(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The last record of every run whose end is found, a random one of the same size."""
    out = {k: np.array(a) for k, a in arrays.items()}
    draw = np.random.default_rng(1)
    for name, place, _, _ in ends(arrays):
        fresh = draw.standard_normal(np.shape(arrays[name][place]))
        out[name][place] = np.linalg.norm(arrays[name][place]) * fresh / np.linalg.norm(fresh)
    return out


def invented(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every array of numbers a fresh random one of the same size, the ledger's as well."""
    draw = np.random.default_rng(2)

    def fresh(a: np.ndarray) -> np.ndarray:
        known = np.isfinite(a)
        scale = np.abs(a[known]).mean() if known.any() else 1.0
        return np.where(known, scale * draw.standard_normal(a.shape), a)

    return {k: fresh(a) if a.dtype.kind == "f" else a for k, a in arrays.items()}


def dropped(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The first solution under every name and its multipliers gone, as if it had not been found."""
    out = {k: np.array(a) for k, a in arrays.items()}
    for name in solutions(arrays):
        stem = name.removesuffix("W")
        many = arrays[name].ndim == 3
        if arrays[name].size:
            out[name][0 if many else ...] = np.nan
        for part in ("multipliers", "ties"):
            if f"{stem}{part}" in out and out[f"{stem}{part}"].size:
                out[f"{stem}{part}"][0 if many else ...] = 0.0
    return out


def stretched(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What is neither a solution nor of the ledger, a tenth longer: another path, no worse one."""
    left = set(solutions(arrays))
    return {
        k: 1.1 * a
        if a.dtype.kind == "f" and k not in left and not k.startswith(LEDGER)
        and not k.endswith((".multipliers", ".ties"))
        else a
        for k, a in arrays.items()
    }  # fmt: skip
