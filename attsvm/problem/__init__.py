"""What is asked: tokens, a selection of them, and the max-margin problem of the two."""

from attsvm.problem.problem import Problem, Stack
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens

__all__ = ["Problem", "Selection", "Stack", "Tokens"]
