"""The training optimizers, by name; `mirror:P` and `nmirror:P` for any P > 1."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import lru_cache
from numbers import Real
from typing import Any
from weakref import WeakSet

from attsvm._utils.expected import shown
from attsvm.errors import Unsupported
from attsvm.training.optimizers.adam import adam
from attsvm.training.optimizers.gradient_descent import gd, ngd, polyak
from attsvm.training.optimizers.mirror import mirror, nmirror
from attsvm.training.optimizers.optimizer import Blocks, Gradient, Optimizer, Step, check_optimizer
from attsvm.training.optimizers.sign import sign, signum
from attsvm.training.optimizers.spectral import muon, spectral
from attsvm.training.optimizers.steps import Schedule, schedule_of, with_decay

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "gd": gd,
    "ngd": ngd,
    "polyak": polyak,
    "mirror:P": mirror,
    "nmirror:P": nmirror,
    "sign": sign,
    "spectral": spectral,
    "signum": signum,
    "muon": muon,
    "adam": adam,
}


# An optimizer where one is asked for: its name, the optimizer itself, or a function that makes it.
RuleLike = str | Optimizer | Callable[..., Optimizer]

__all__ = [
    "OPTIMIZERS",
    "Blocks",
    "Gradient",
    "Optimizer",
    "RuleLike",
    "Schedule",
    "Step",
    "check_optimizer",
    "is_listed",
    "optimizer_of",
    "schedule_of",
    "with_decay",
]

# Optimizers that are known to keep the contract, and those among them that were made here by name.
_FINE: WeakSet[Optimizer] = WeakSet()
_LISTED: WeakSet[Optimizer] = WeakSet()
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?|\.[0-9]{1,12}")


def optimizer_of(optimizer: RuleLike, **options: Any) -> Optimizer:
    """The optimizer of this name with its options (momentum, ε, …); an Optimizer is returned as is.

    A function that makes an optimizer is called with the options.

    >>> optimizer_of("mirror:1.75").name
    'mirror:1.75'
    >>> optimizer_of("adam", beta1=0.8).norm is None
    True
    """
    if isinstance(optimizer, Optimizer):
        if options:
            raise Unsupported(
                f"options go with the name of an optimizer; {optimizer.name} is made already"
            )
        return _checked(optimizer)
    if callable(optimizer):
        return _made(optimizer, options)
    if not isinstance(optimizer, str):
        raise Unsupported(
            f"an optimizer is given by name, or as an Optimizer; this is {shown(optimizer)}"
        )
    word, colon, text = optimizer.partition(":")
    key = _key(optimizer)
    if key not in OPTIMIZERS:
        hint = (
            f" (write {optimizer}:P, such as {optimizer}:1.75)"
            if f"{optimizer}:P" in OPTIMIZERS
            else ""
        )
        raise Unsupported(
            f"unknown optimizer {shown(optimizer)}{hint}: known are {', '.join(OPTIMIZERS)}"
        )
    factory = OPTIMIZERS[key]
    allowed = {
        name: parameter.default
        for name, parameter in inspect.signature(factory).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        takes = f"it takes {', '.join(allowed)}" if allowed else "it takes none"
        raise Unsupported(f"optimizer {optimizer!r} has no option {', '.join(unknown)}: {takes}")
    for name, value in options.items():
        if isinstance(allowed[name], bool):
            fits, kind = isinstance(value, bool), "True or False"
        else:  # None is the word for an option left out
            fits = isinstance(value, Real) and not isinstance(value, bool)
            fits, kind = fits or value is allowed[name], "a number"
        if not fits:
            raise Unsupported(
                f"option {name} of optimizer {optimizer!r} is {shown(value)}: it must be {kind}"
            )
    if not colon:
        return _listed(factory, **options)
    if _NUMBER.fullmatch(text) is None:
        raise Unsupported(
            f"optimizer {shown(optimizer)} needs a number P above 1, such as {word}:1.75"
        )
    return _listed(factory, float(text), **options)


def is_listed(optimizer: Optimizer) -> bool:
    """Whether `optimizer_of` made the optimizer from its name, so that it does what it declares.

    >>> from dataclasses import replace
    >>> is_listed(optimizer_of("ngd")), is_listed(replace(optimizer_of("ngd"), name="mine"))
    (True, False)
    """
    return optimizer in _LISTED


def _key(name: str) -> str:
    """The name of an optimizer as the registry has it."""
    word, colon, _ = name.partition(":")
    return f"{word}:P" if colon else name


@lru_cache(maxsize=256, typed=True)
def _listed(factory: Callable[..., Optimizer], *given: float, **options: Any) -> Optimizer:
    """A listed optimizer, which tests hold to the contract."""
    made = factory(*given, **options)
    _FINE.add(made)
    _LISTED.add(made)
    return made


def _checked(optimizer: Optimizer) -> Optimizer:
    """A custom optimizer, held to the contract the first time it is met."""
    if optimizer not in _FINE:
        if _key(optimizer.name) in OPTIMIZERS:
            raise Unsupported(
                f"your optimizer is named {optimizer.name!r}, as a listed one: give it another name"
            )
        if not optimizer.floats:  # of these `as_optimizer` makes every step a pure function
            check_optimizer(optimizer)
        _FINE.add(optimizer)
    return optimizer


def _made(factory: Callable[..., Optimizer], options: dict[str, Any]) -> Optimizer:
    """The optimizer that a custom function makes with these options."""
    try:
        made = factory(**options)
    except TypeError as error:
        raise Unsupported(
            f"the function that makes the optimizer does not take this: {error}"
        ) from None
    if not isinstance(made, Optimizer):
        raise Unsupported(
            f"the function that makes the optimizer gave {shown(made)}: it must be an Optimizer"
        )
    return _checked(made)
