"""The arrays of a saved proof."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np

from proof_parts.reals import need

THEOREMS = ("", "tube", "cone", "level")
# Arrays by type and axes; equal letters are equal lengths; the last lines may be absent.
ARRAYS = """f:std X; f:nq queries; f:d head; f:kq W; i:n selection; f: lr longest_step;
    i: float_steps; U: optimizer loss theorem"""
OPTIONAL = """f:stk keys; f:n labels; b:nt mask; i:n source; f:kq direction; U: witness.mode; i:c2
    witness.tight; i:j2 witness.shifted; f:j witness.shift; f: witness.D witness.errors witness.c0
    witness.R; b: witness.exact; f:c witness.mu; f:ab witness.axis"""


def read(path: str) -> SimpleNamespace:
    """The arrays of a file: of the right types, finite, in range, and fitting each other."""
    file = dict(np.load(path, allow_pickle=False))
    version, size = file.get("attsvm_proof", np.array("missing")).tolist(), {"2": 2}
    need(version == 1, f"attsvm_proof, the format version, is {version} and not 1", 2)
    if "X" in file and "keys" not in file:
        file["keys"] = file["X"]
    words = "optimizer" in file and file["optimizer"].dtype.kind == "U" and "head" in file
    sentences = words and np.ndim(file["head"]) == 2
    need(not sentences, "a proof on sentences: proofs on tokens are rechecked here", 2)
    for group in (ARRAYS + ";" + OPTIONAL).split(";"):
        (kind, axes), *names = group.split()[0].split(":"), *group.split()[1:]
        for name in names:
            need(
                name in file or name in OPTIONAL.replace(";", " ").split(),
                f"the array {name} is missing",
                2,
            )
            if name in file:
                a, at = file[name], zip(axes, file[name].shape, strict=False)
                right = a.dtype.kind == kind and (kind in "Ub" or a.itemsize == 8)
                fits = a.ndim == len(axes) and all(size.setdefault(x, m) == m for x, m in at)
                need(right and fits, f"{name} is {a.dtype} of shape {a.shape}", 2)
                need(not axes or kind != "f" or np.isfinite(a).all(), f"{name} is not finite", 2)
                file[name] = a if axes else a.item()
    n, T = len(file["queries"]), file["X"].shape[1]
    f = SimpleNamespace(constants={}, n=n, T=T)
    for name, default in (("labels", np.ones(n)), ("mask", np.ones((n, T), bool)),
                          ("source", np.arange(n))):  # fmt: skip
        file.setdefault(name, default)
    for name, value in file.items():
        if name.startswith("constants."):
            need(value.dtype == float and value.ndim == 0, f"{name} is no number", 2)
            need(np.isfinite(value), f"{name} is not finite", 2)
            f.constants[name.removeprefix("constants.")] = Fraction(value.item())
        setattr(f, name.removeprefix("witness."), value)
    for name, pool in (("selection", T), ("source", len(f.X))):
        need(np.all((file[name] >= 0) & (file[name] < pool)), f"{name} is out of range", 2)
    need(np.all(abs(f.labels) == 1), "a label is neither 1 nor -1", 2)
    need(f.loss in ("logistic", "exponential", "linear"), f"the loss is {f.loss!r}", 2)
    need(
        f.optimizer in ("gd", "ngd"),
        f"the optimizer is {f.optimizer!r}: gd and ngd are rechecked here",
        2,
    )
    need(f.theorem in THEOREMS, f"the theorem is {f.theorem!r}", 2)
    return f
