"""Batch: the arrays of a stack of instances of one size, ready for the gradient kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Bools, Floats
from attsvm.errors import BadTokens
from attsvm.problem.tokens import Tokens


@dataclass(frozen=True, eq=False)
class Batch:
    """B instances: keys (B, n, T, d), values (B, n, T, e), queries (B, n, dq), labels (B, n) and
    present (B, n, T), the tokens that are there."""

    keys: Floats
    values: Floats
    queries: Floats
    labels: Floats
    present: Bools

    @classmethod
    def of(cls, tokens: Tokens | Sequence[Tokens]) -> Batch:
        """The batch of one instance, or of several of the same size."""
        listed = [tokens] if isinstance(tokens, Tokens) else list(tokens)
        if not listed:
            raise BadTokens("there is no instance to train on")
        for b, t in enumerate(listed):
            if t.labels is None:
                raise BadTokens(f"labels are missing in instance {b}: training needs -1 or +1")
            if (t.n, t.T, t.d, t.keys.shape[2], t.queries.shape[1]) != (
                listed[0].n,
                listed[0].T,
                listed[0].d,
                listed[0].keys.shape[2],
                listed[0].queries.shape[1],
            ):
                raise BadTokens(f"instance {b} has another size than instance 0: {t!r}")
        return cls(
            np.stack([_of_inputs(t, t.keys) for t in listed]),
            np.stack([_of_inputs(t, t.X) for t in listed]),
            np.ascontiguousarray(np.stack([t.queries for t in listed])),
            np.stack([np.asarray(t.labels) for t in listed]),
            np.stack([t.present() for t in listed]),
        )

    @property
    def size(self) -> int:
        """The number of instances."""
        return len(self.keys)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (d, dq) of W."""
        return int(self.keys.shape[3]), int(self.queries.shape[2])


def _of_inputs(tokens: Tokens, array: NDArray[Any]) -> Floats:
    """Keys or values (n, T, d) of each input; sequences that share keys are written out."""
    full = np.asarray(array, dtype=np.float64)
    return full if tokens.source is None else full[tokens.source]
