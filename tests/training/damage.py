"""Saved runs, damaged in random ways: bytes of the file, arrays, and entries of the config."""

import json
from pathlib import Path as FilePath

import numpy as np

# What an array, and an entry of the config, may turn into.
ARRAYS = (
    np.array("text"), np.array(["a", "b"]), np.empty(0), np.empty((0, 3, 2)), np.float64(np.nan),
    np.array([[1 + 2j]]), np.array(True), np.array([1, "x", None], object), np.int64(2**62),
    np.full((3, 1), np.inf), np.array(b"bytes"), np.array("2020-01-01", "M8[D]"),
    np.zeros(2, [("a", "f8")]), np.arange(5, dtype=">i2"), np.array([2**64 - 1], np.uint64),
)  # fmt: skip
ENTRIES = (
    None, True, -1, 0, 2.5, 10**30, 10**50, float("nan"), "", "text", [], [1], {}, {"a": 1}, [[]],
    "mirror:0", "normal:-1", float("inf"), "weight", "next-token", ["model"], [3], {"b": "x"},
)  # fmt: skip


def damaged(source: FilePath, target: FilePath, seed: int) -> str:
    """What was done to the run saved in `source`, which is now in `target`."""
    draw = np.random.default_rng(seed)
    if seed % 3 == 0:
        return _bytes(source, target, draw)
    with np.load(source) as archive:
        arrays = {name: archive[name] for name in archive.files}
    name = str(draw.choice(list(arrays)))
    if seed % 3 == 1:
        config = json.loads(str(arrays["path.config"]))
        key, new = str(draw.choice(list(config))), ENTRIES[int(draw.integers(len(ENTRIES)))]
        dropped = bool(draw.integers(8) == 0)
        config = {k: new if k == key else v for k, v in config.items() if not dropped or k != key}
        arrays["path.config"] = np.str_(json.dumps(config))
        said = f"config {key}: {'dropped' if dropped else new!r}"
    else:
        said = f"{name}: {_array(arrays, name, draw)}"
    np.savez(target, **arrays)
    return said


def _bytes(source, target, draw):
    content = bytearray(source.read_bytes())
    if draw.integers(3) == 0:
        length = int(draw.integers(len(content)))
        target.write_bytes(content[:length])
        return f"cut to {length} bytes"
    places = draw.integers(len(content), size=int(draw.integers(1, 5)))
    for place in places:
        content[place] = int(draw.integers(256))
    target.write_bytes(content)
    return f"bytes {places.tolist()} changed"


def _array(arrays, name, draw):
    old, kind = arrays[name], int(draw.integers(7))
    if kind == 0:
        del arrays[name]
        return "dropped"
    if kind == 1:
        arrays[name] = ARRAYS[int(draw.integers(len(ARRAYS)))]
        return f"became {arrays[name].dtype} {arrays[name].shape}"
    if kind == 2:
        arrays[name] = old[None]
        return "one axis more"
    if kind == 3:
        arrays[name] = old.ravel()[: old.size // 2]
        return "half, flat"
    if kind == 4:
        arrays[name] = old.astype(str)
        return "texts"
    if kind == 5 and old.dtype.kind in "if":
        arrays[name] = old * -(2**40) - 1
        return "other numbers"
    if old.ndim > 1:
        arrays[name] = np.moveaxis(old, 0, -1)
        return "axes moved"
    arrays[name] = old[..., None]
    return "an axis at the end"
