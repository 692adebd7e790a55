"""The training rules, by name; `mirror:P` and `nmirror:P` for any P > 1."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from numbers import Real
from typing import Any
from weakref import WeakSet

from attsvm._utils.expected import shown
from attsvm.errors import Unsupported
from attsvm.training.optimizers import (
    adam,
    gd,
    mirror,
    muon,
    ngd,
    nmirror,
    polyak,
    sign,
    signum,
    spectral,
)
from attsvm.training.optimizers.optimizer import Blocks, Gradient, Rule, Step, check_rule
from attsvm.training.optimizers.steps.decay import with_decay
from attsvm.training.optimizers.steps.schedules import Schedule, schedule_of

RULES: dict[str, Callable[..., Rule]] = {
    "gd": gd.rule,
    "ngd": ngd.rule,
    "polyak": polyak.rule,
    "mirror:P": mirror.rule,
    "nmirror:P": nmirror.rule,
    "sign": sign.rule,
    "spectral": spectral.rule,
    "signum": signum.rule,
    "muon": muon.rule,
    "adam": adam.rule,
}


# A rule where one is asked for: its name, the rule itself, or a function that makes it.
RuleLike = str | Rule | Callable[..., Rule]

__all__ = [
    "RULES",
    "Blocks",
    "Gradient",
    "Rule",
    "RuleLike",
    "Schedule",
    "Step",
    "check_rule",
    "is_listed",
    "rule_of",
    "schedule_of",
    "with_decay",
]

# Rules that are known to keep the contract, and those among them that were made here by name.
_FINE: WeakSet[Rule] = WeakSet()
_LISTED: WeakSet[Rule] = WeakSet()
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?|\.[0-9]{1,12}")


def rule_of(rule: RuleLike, **options: Any) -> Rule:
    """The rule of this name with its options (momentum, ε, …); a Rule is handed back as it is.

    A function that makes a rule is called with the options.

    >>> rule_of("mirror:1.75").name
    'mirror:1.75'
    >>> rule_of("adam", beta1=0.8).norm is None
    True
    """
    if isinstance(rule, Rule):
        if options:
            raise Unsupported(f"options go with the name of a rule; {rule.name} is made already")
        return _checked(rule)
    if callable(rule):
        return _made(rule, options)
    if not isinstance(rule, str):
        raise Unsupported(f"a rule is given by name, or as a Rule; this is {shown(rule)}")
    word, colon, text = rule.partition(":")
    key = _key(rule)
    if key not in RULES:
        hint = f" (write {rule}:P, such as {rule}:1.75)" if f"{rule}:P" in RULES else ""
        raise Unsupported(f"unknown rule {shown(rule)}{hint}: known are {', '.join(RULES)}")
    factory = RULES[key]
    allowed = {
        name: parameter.default
        for name, parameter in inspect.signature(factory).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        takes = f"it takes {', '.join(allowed)}" if allowed else "it takes none"
        raise Unsupported(f"rule {rule!r} has no option {', '.join(unknown)}: {takes}")
    for name, value in options.items():
        if isinstance(allowed[name], bool):
            fits, kind = isinstance(value, bool), "True or False"
        else:  # None is the word for an option left out
            fits = isinstance(value, Real) and not isinstance(value, bool)
            fits, kind = fits or value is allowed[name], "a number"
        if not fits:
            raise Unsupported(
                f"option {name} of rule {rule!r} is {shown(value)}: it must be {kind}"
            )
    if not colon:
        return _known(factory(**options))
    if _NUMBER.fullmatch(text) is None:
        raise Unsupported(f"rule {shown(rule)} needs a number P above 1, such as {word}:1.75")
    return _known(factory(float(text), **options))


def is_listed(rule: Rule) -> bool:
    """Whether `rule_of` made the rule from its name, so that it does what it declares.

    >>> from dataclasses import replace
    >>> is_listed(rule_of("ngd")), is_listed(replace(rule_of("ngd"), name="mine"))
    (True, False)
    """
    return rule in _LISTED


def _key(name: str) -> str:
    """The name of a rule as the registry has it."""
    word, colon, _ = name.partition(":")
    return f"{word}:P" if colon else name


def _known(rule: Rule) -> Rule:
    """A rule of the house's own, which tests hold to the contract."""
    _FINE.add(rule)
    _LISTED.add(rule)
    return rule


def _checked(rule: Rule) -> Rule:
    """A rule of one's own, held to the contract the first time it is met."""
    if rule not in _FINE:
        if _key(rule.name) in RULES:
            raise Unsupported(
                f"the rule of one's own is named {rule.name!r}, as a listed one: give it another "
                "name"
            )
        check_rule(rule)
        _FINE.add(rule)
    return rule


def _made(factory: Callable[..., Rule], options: dict[str, Any]) -> Rule:
    """The rule that a function of one's own makes with these options."""
    try:
        made = factory(**options)
    except TypeError as error:
        raise Unsupported(f"the function that makes the rule does not take this: {error}") from None
    if not isinstance(made, Rule):
        raise Unsupported(f"the function that makes the rule gave {shown(made)}: it must be a Rule")
    return _checked(made)
