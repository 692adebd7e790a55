"""The contestants of the bench, by name."""

from __future__ import annotations

from benchmarks.contestants import (
    cvxpy_loop,
    cvxpy_vectorised,
    daqp_dual,
    jax_loop,
    numpy_loop,
    ours,
    scipy_nnls,
    torch_loop,
)
from benchmarks.task import Contestant

CONTESTANTS: dict[str, Contestant] = {
    "ours": Contestant("attsvm, from arrays to Certificate", ours.answer),
    "cvxpy loop": Contestant("one constraint a row", cvxpy_loop.answer, ("cvxpy",)),
    "cvxpy vectorised": Contestant("one constraint for all", cvxpy_vectorised.answer, ("cvxpy",)),
    "scipy nnls": Contestant("least distance, features", scipy_nnls.answer),
    "daqp": Contestant("dual active set, features", daqp_dual.answer, ("daqp",)),
    "numpy loop": Contestant("training, textbook gradient", numpy_loop.answer),
    "torch loop": Contestant(
        "training, automatic gradient", torch_loop.answer, ("torch",), optional=True
    ),
    "jax loop": Contestant("training, jit(vmap(scan))", jax_loop.answer, ("jax",), optional=True),
}
