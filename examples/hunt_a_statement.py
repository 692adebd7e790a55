"""
Is this statement true?
=======================

A custom statement is searched: it has premises, and a number that is positive where it breaks.

Taking a token away takes rows away from the problem, so the solution can only grow shorter. Does it
move? If the token is not tight it does not: that is true, and the search finds nothing. Without
the premise it finds one input of three tokens on a line at once.

From the command line: ``attsvm hunt examples/hunt_a_statement.py:STATEMENT``
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

import attsvm
from attsvm.experiments.counterexamples import hunt
from attsvm.experiments.statements import Field, Space, Statement


def solution(X):
    """The prompt of least norm that keeps the first token of every input, None without one."""
    W = attsvm.solve(attsvm.Problem.of(attsvm.Tokens(X), [0] * len(X))).W
    return None if W is None else W[:, 0]


def loose(one):
    p, X = solution(one["X"]), one["X"]
    return p is not None and bool(((X[:, 0] - X[:, -1]) @ p > 1 + 1e-9).all())


def moved(one):
    return float(np.linalg.norm(solution(one["X"]) - solution(one["X"][:, :-1]))) - 1e-6


STATEMENT = Statement(
    "loose-tokens",
    says="Taking away the last tokens, which are not tight, leaves the solution where it is.",
    kind="conjecture",
    space=Space({"n": (1, 2), "T": (3, 3), "d": (1, 2)}, (Field("X", ("n", "T", "d")),)),
    premises=loose,
    violation=moved,
)

if __name__ == "__main__":
    print(hunt(STATEMENT, instances=1500).message)
    found = hunt(replace(STATEMENT, premises=lambda one: solution(one["X"]) is not None))
    print(found.message)
    (tokens,) = found.found.instance["X"]

    figure, axes = plt.subplots(figsize=(6, 1.6), layout="constrained")
    axes.plot(tokens[:, 0], [0, 0, 0], "o")
    for name, x in zip(("kept", "dropped", "taken away"), tokens[:, 0], strict=True):
        axes.annotate(name, (x, 0), xytext=(0, 9), textcoords="offset points", ha="center")
    axes.set(yticks=[], ylim=(-1, 1), xlim=(-2, 2), title="The smallest counterexample")
    plt.show()
