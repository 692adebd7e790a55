"""Batch: the arrays of a stack of instances of one size, ready for the gradient kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attsvm.errors import BadTokens
from attsvm.tokens import Bools, Floats, Tokens


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
                listed[0].n, listed[0].T, listed[0].d, listed[0].keys.shape[2],
                listed[0].queries.shape[1],
            ):  # fmt: skip
                raise BadTokens(f"instance {b} has another size than instance 0: {t!r}")
        arrays = [[], [], [], [], []]  # type: list[list[Floats]]
        for t in listed:
            source = slice(None) if t.source is None else t.source
            arrays[0].append(np.asarray(t.keys, np.float64)[source])
            arrays[1].append(np.asarray(t.X, np.float64)[source])
            arrays[2].append(t.queries)
            arrays[3].append(np.asarray(t.labels))
            arrays[4].append(t.present())
        keys, values, queries, labels, present = (np.stack(column) for column in arrays)
        return cls(keys, values, queries, labels, present.astype(bool))

    @property
    def size(self) -> int:
        """The number of instances."""
        return len(self.keys)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (d, dq) of W."""
        return int(self.keys.shape[3]), int(self.queries.shape[2])
