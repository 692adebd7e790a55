"""Weights: a custom attention matrix, in whatever form it comes.

W (d, dq), a prompt p (d,), or factors K (d, m) and Q (dq, m) with W = K Qᵀ; arrays, lists or
tensors, alone or stacked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from attsvm._utils.arrays import LARGEST, Floats, Ints, detached, numbers
from attsvm._utils.expected import whole_instance
from attsvm.errors import BadTokens
from attsvm.problem.tokens import Tokens

# The blocks that make a matrix, with the axes of each; v is a decoder trained beside them.
FORMS = ({"W": 2}, {"p": 1}, {"K": 2, "Q": 2})
DECODER = "v"


@dataclass(frozen=True, eq=False)
class WeightBlocks:
    """The blocks of one instance, by name: W; p; or K and Q; and v where a decoder is among them.

    >>> WeightBlocks.of(([[1.0], [2.0]], [[3.0], [0.0]]), (2, 2)).matrix
    array([[3., 0.],
           [6., 0.]])
    """

    blocks: dict[str, Floats]

    @classmethod
    def of(cls, given: Any, shape: tuple[int, int], *, instance: int = 0) -> WeightBlocks:
        """The weights given for a matrix of this shape (d, dq), checked.

        given: an array (d, dq); (d,) where dq is 1; a pair, as a tuple, or a dict of K (d, m) and
        Q (dq, m); or a dict with W or p, and v if a decoder was trained as well. With one axis more
        in front it is a stack, of which `instance` is taken.
        """
        blocks = _named(given, shape)
        axes = {name: n for form in FORMS for name, n in form.items()} | {DECODER: 1}
        one = {}
        for name, block in blocks.items():
            if block.ndim not in (axes[name], axes[name] + 1):
                _refuse(name, block.shape, shape)
            stacked = block.ndim > axes[name]
            number = whole_instance(instance, len(block) if stacked else 1)
            one[name] = np.ascontiguousarray(block[number] if stacked else block)
            _finite(one[name], name)
        made = cls(one)
        _check_shapes(one, shape)
        _finite(made.matrix, "K Qᵀ" if "K" in one else next(iter(one)))
        return made

    @property
    def matrix(self) -> Floats:
        """W (d, dq)."""
        if "p" in self.blocks:
            return self.blocks["p"][:, None]
        if "K" in self.blocks:
            return self.blocks["K"] @ self.blocks["Q"].T
        return self.blocks["W"]


def top_tokens(tokens: Tokens, W: Floats) -> Ints:
    """The token of each input with the highest logit k_t·W z (n,), the first among equals.

    Logits are compared by differences of keys: those of keys that nearly coincide would cancel.
    """
    source = np.arange(tokens.n) if tokens.source is None else tokens.source
    toward = tokens.queries @ W.T
    top = np.zeros(tokens.n, dtype=np.int64)
    present = tokens.present()
    for i, (s, u) in enumerate(zip(source, toward, strict=True)):
        keys = np.asarray(tokens.keys[s], dtype=np.float64)
        a = int(np.where(present[i], keys @ u, -np.inf).argmax())
        for _ in range(tokens.T):
            ahead = np.where(present[i], (keys - keys[a]) @ u, -np.inf)
            better = int(ahead.argmax())
            if not ahead[better] > 0:
                break
            a = better
        top[i] = a
    return top


def _named(given: Any, shape: tuple[int, int]) -> dict[str, Floats]:
    """The blocks of what was given, by name, each perhaps a stack."""
    d, dq = shape
    if isinstance(given, Mapping):
        names = set(given)
        if not any(names - {DECODER} == set(form) for form in FORMS):
            said = ", ".join(map(str, given)) or "nothing"
            raise BadTokens(
                f"the weights have {said}: give W, or p, or K and Q (and v, if trained)"
            )
        return {name: _array(block, name) for name, block in given.items()}
    if isinstance(given, tuple) and len(given) == 2:
        K, Q = (_array(part, name) for part, name in zip(given, "KQ", strict=True))
        if K.ndim >= 2 and Q.ndim >= 2:
            return {"K": K, "Q": Q}
    array = _array(given, "W")
    prompts = array.ndim == 2 and array.shape != shape and array.shape[1] == d
    if dq == 1 and (array.ndim == 1 or prompts):
        return {"p": array}
    return {"W": array}


def _array(given: Any, name: str) -> Floats:
    """An array of floats out of an array, lists or a tensor."""
    return numbers(detached(given), name).astype(np.float64, copy=False)


def _refuse(name: str, found: tuple[int, ...], shape: tuple[int, int]) -> NoReturn:
    """Raises BadTokens: what shape a block has, and which it must have."""
    d, dq = shape
    wanted = {"W": f"({d}, {dq})", "p": f"({d},)", "K": f"({d}, m)", "Q": f"({dq}, m)"}
    raise BadTokens(
        f"{name} has shape {found}; it must be {wanted.get(name, 'a vector')}, or a stack of these"
    )


def _check_shapes(blocks: Mapping[str, Floats], shape: tuple[int, int]) -> None:
    """Raises BadTokens unless the blocks make a matrix of this shape."""
    d, dq = shape
    if "p" in blocks and dq != 1:
        raise BadTokens(
            f"p is for tokens without queries; with queries of width {dq} give W {shape}"
        )
    width = blocks["K"].shape[-1] if "K" in blocks else 0
    wanted = {"W": (d, dq), "p": (d,), "K": (d, width), "Q": (dq, width)}
    for name, block in blocks.items():
        if name != DECODER and block.shape != wanted[name]:
            if name == "Q" and block.shape[0] == dq:
                raise BadTokens(
                    f"K has {width} columns and Q {block.shape[1]}: W = K Qᵀ needs as many"
                )
            _refuse(name, block.shape, shape)
    if "K" in blocks and not width:
        raise BadTokens(f"K has shape {blocks['K'].shape}: an axis is empty")


def _finite(block: Floats, name: str) -> None:
    """Raises BadTokens, with the entry, unless all are finite and not too large."""
    wrong = ~(np.abs(block) <= LARGEST)
    if wrong.any():
        index = tuple(int(k) for k in np.argwhere(wrong)[0])
        raise BadTokens(
            f"{name}[{', '.join(map(str, index))}] is {block[index]}: entries must be finite and "
            f"below {LARGEST:g}"
        )
