"""Formulas in a spec, such as max(T - 1, n): arithmetic on parameters, and nothing else."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any

from attsvm.errors import BadTokens

_FUNCTIONS = {"max": max, "min": min, "sqrt": math.sqrt, "ceil": math.ceil, "log": math.log}
# Without attributes, subscripts and keywords, nothing but arithmetic can be written.
_ALLOWED = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.Add, ast.Sub, ast.Mult,
    ast.Div, ast.Pow, ast.UnaryOp, ast.USub, ast.Call,
)  # fmt: skip


def value_of(formula: str, names: Mapping[str, Any]) -> float:
    """The value of the formula with these parameters.

    >>> value_of("max(T - 1, n)", {"T": 5, "n": 3})
    4.0
    """
    try:
        tree = ast.parse(formula, mode="eval")
        if not all(isinstance(node, _ALLOWED) for node in ast.walk(tree)):
            raise ValueError(f"it has numbers, parameters, + - * / ** and {', '.join(_FUNCTIONS)}")
        code = compile(tree, "<formula>", "eval")
        return float(eval(code, {"__builtins__": {}, **_FUNCTIONS}, dict(names)))
    except (SyntaxError, ArithmeticError, NameError, TypeError, ValueError) as error:
        raise BadTokens(f"the formula {formula!r} cannot be worked out: {error}") from error
