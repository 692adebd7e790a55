"""Formulas in a spec, such as max(T - 1, n): arithmetic on parameters, and nothing else."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from attsvm.errors import BadTokens

_FUNCTIONS: dict[str, Callable[..., float]] = {
    "max": max,
    "min": min,
    "sqrt": math.sqrt,
    "ceil": math.ceil,
    "log": math.log,
}
_SIGNS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def value_of(formula: str, names: Mapping[str, Any]) -> float:
    """The value of the formula with these parameters.

    >>> value_of("max(T - 1, n)", {"T": 5, "n": 3})
    4.0
    """
    try:
        return float(_value(ast.parse(formula, mode="eval").body, names))
    except (SyntaxError, ArithmeticError, TypeError, ValueError) as error:
        if isinstance(error, BadTokens):
            raise
        raise BadTokens(f"the formula {formula!r} cannot be worked out ({error})") from error


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            if name not in names:
                known = ", ".join(names)
                raise BadTokens(f"the formula has {name}, and the sweep has {known}")
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SIGNS:
            return _SIGNS[type(op)](_value(left, names), _value(right, names))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner, names)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(arg, names) for arg in args))
    raise BadTokens(
        f"a formula has numbers, parameters, + - * / ** and {', '.join(_FUNCTIONS)}; this has "
        f"{ast.unparse(node)!r}"
    )
