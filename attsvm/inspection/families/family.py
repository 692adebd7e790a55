"""Family: how one kind of checkpoint is read into a Transformer, and what all kinds use for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from attsvm.errors import BadTokens, Unsupported
from attsvm.inspection.pieces import ACTIVATIONS, Floats32, LinearLayer, NormLayer
from attsvm.inspection.transformer import Transformer

# Entries of a configuration beyond these are taken for a mistake.
LARGEST_COUNT, LARGEST_NUMBER = 2**31, 1e30


class Family(Protocol):
    """A function that reads one kind of checkpoint."""

    def __call__(self, config: Config, weights: ModelWeights) -> Transformer:
        """The model; raises BadTokens or Unsupported where the checkpoint is not of this kind."""


@dataclass(frozen=True)
class Config:
    """The entries of a config.json, read with a check.

    where: the file, for messages.

    >>> Config({"n_head": 12}, "config.json").count("num_attention_heads", "n_head")
    12
    """

    entries: Mapping[str, Any]
    where: str

    def count(self, *names: str, default: int | None = None, most: int = LARGEST_COUNT) -> int:
        """The first of these entries that is there: a whole number above 0, at most `most`."""
        for name in names:
            value = self.entries.get(name)
            if value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise BadTokens(f"{self.where}: {name} is {value!r}; it must be a whole number")
            if value > most:
                raise BadTokens(f"{self.where}: {name} is above {most:,}: no model has so many")
            return value
        if default is None:
            raise BadTokens(f"{self.where} has no entry {' or '.join(names)}")
        return default

    def number(self, name: str, default: float | None = None, *, least: float = 0.0) -> float:
        """An entry that is a number, `least` or above."""
        value = self.entries.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadTokens(f"{self.where}: {name} is {value!r}; it must be a number")
        if not least <= value <= LARGEST_NUMBER:
            raise BadTokens(
                f"{self.where}: {name} is {value!r}; it must lie between {least:g} and "
                f"{LARGEST_NUMBER:g}"
            )
        return float(value)

    def activation(self, *names: str, default: str) -> Callable[[Floats32], Floats32]:
        """The activation that the first of these entries names."""
        word = next((self.entries[name] for name in names if name in self.entries), default)
        if not isinstance(word, str) or word not in ACTIVATIONS:
            raise Unsupported(
                f"{self.where}: activation {word!r} is not known here; known are "
                f"{', '.join(ACTIVATIONS)}"
            )
        return ACTIVATIONS[word]

    def refuse(self, name: str, kept: Any, why: str) -> None:
        """Raises Unsupported unless the entry is missing or has the value `kept`."""
        value = self.entries.get(name, kept)
        if value is not None and value != kept:
            raise Unsupported(f"{self.where}: {name} is {value!r}, {why}; only {kept!r} is read")


@dataclass(frozen=True, eq=False)
class ModelWeights:
    """The tensors of a checkpoint by name, with or without a first word such as `bert.`.

    where: the file, for messages.
    """

    tensors: Mapping[str, NDArray[Any]]
    where: str
    prefixes: tuple[str, ...] = ("",)

    def under(self, *prefixes: str) -> ModelWeights:
        """The same tensors, whose names may begin with one of these words."""
        return ModelWeights(self.tensors, self.where, (*prefixes, ""))

    def take(self, name: str, *shape: int) -> Floats32:
        """A tensor of this shape in single precision."""
        held = self.find(name)
        if held is None:
            raise BadTokens(f"{self.where} has no tensor {name}: the weights are not whole")
        if held.shape != shape:
            raise BadTokens(
                f"{self.where}: {name} has shape {held.shape} and config.json makes it {shape}"
            )
        with np.errstate(over="ignore"):
            out = np.asarray(held, dtype=np.float32)
        if not np.isfinite(out).all():
            raise BadTokens(f"{self.where}: {name} holds numbers that are not finite in float32")
        return out

    def find(self, name: str) -> NDArray[Any] | None:
        """A tensor as it is, or None."""
        for prefix in self.prefixes:
            if prefix + name in self.tensors:
                return self.tensors[prefix + name]
        return None

    def linear(self, name: str, out: int, into: int, *, bias: bool = True) -> LinearLayer:
        """The map with weight (out, into) and, unless bias is False, a bias."""
        shift = self.take(f"{name}.bias", out) if bias else None
        return LinearLayer(self.take(f"{name}.weight", out, into), shift)

    def norm(self, name: str, d: int, eps: float) -> NormLayer:
        """The layer norm of this name. Old checkpoints say gamma and beta."""
        old = self.find(f"{name}.weight") is None and self.find(f"{name}.gamma") is not None
        scale, shift = ("gamma", "beta") if old else ("weight", "bias")
        return NormLayer(self.take(f"{name}.{scale}", d), self.take(f"{name}.{shift}", d), eps)


def width_of(config: Config, d: int, heads: int) -> int:
    """The width d / heads of a head."""
    if d % heads:
        raise BadTokens(f"{config.where}: {heads} attention heads do not divide {d} features")
    return d // heads


def check_family(family: Family, config: Config, weights: ModelWeights) -> Transformer:
    """The Transformer that a custom family reads. Raises Unsupported where it breaks its contract.

    The contract: it is a Transformer; its heads divide into groups; on three tokens every layer
    keeps the shape of the stream, finite, and every query's attention sums to 1.
    """
    body = family(config, weights)
    name = getattr(family, "__name__", "family")
    if not isinstance(body, Transformer):
        raise Unsupported(f"{name} returns {type(body).__name__}; a family returns a Transformer")
    if not body.layers or body.heads % body.groups:
        raise Unsupported(
            f"{name}: {body.heads} attention heads in {body.groups} groups, or no layer"
        )
    ids, valid = np.zeros((1, 3), dtype=np.int64), np.ones((1, 3), dtype=bool)
    try:
        x = body.embedding(ids)
        for layer in range(len(body.layers)):
            shares = body.shares(layer, body.attention_input(layer, x), valid)
            x = body.step(layer, x, valid)
            body.factors(layer, body.heads - 1)
            kept = x.shape == (1, 3, body.features) and bool(np.isfinite(x).all())
            if not kept or not np.allclose(shares.sum(axis=3), 1.0, atol=1e-5):
                raise Unsupported(
                    f"{name}: layer {layer} does not keep the stream (1, 3, d) finite"
                )
    except (ValueError, IndexError, TypeError) as error:
        if isinstance(error, Unsupported):
            raise
        raise Unsupported(f"{name} breaks the shapes of a Transformer ({error})") from error
    return body
