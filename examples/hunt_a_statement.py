"""Is it true? A statement of one's own, hunted.

Adding a token to an input adds rows to its problem, so the solution can only grow longer. Does it
also turn? The statement says: if the new token is not tight at the new solution, the direction
stays. That is true, and the search finds nothing. Leave the premise out and it finds two tokens
on a line at once.

    attsvm hunt examples/hunt_a_statement.py:STATEMENT
"""

import numpy as np

import attsvm
from attsvm.hunting import hunt
from attsvm.statements import Field, Instance, Space, Statement


def solution(X):
    """The prompt of least norm that keeps the first token of every input, None without one."""
    W = attsvm.solve(attsvm.Problem.of(attsvm.Tokens(X), [0] * len(X))).W
    return None if W is None else W[:, 0]


def loose(one: Instance) -> bool:
    """The first tokens can be kept, and the last token of each input is not tight."""
    p = solution(one["X"])
    return p is not None and bool(((one["X"][:, 0] - one["X"][:, -1]) @ p > 1 + 1e-9).all())


def turned(one: Instance) -> float:
    """How far the solution moves when the last token of each input is taken away."""
    p, q = solution(one["X"]), solution(one["X"][:, :-1])
    return 0.0 if q is None or p is None else float(np.linalg.norm(p - q)) - 1e-6


STATEMENT = Statement(
    "loose-tokens",
    title="Loose tokens do not matter",
    says="Taking away tokens that are not tight leaves the solution where it is.",
    kind="conjecture",
    space=Space({"n": (1, 2), "T": (3, 3), "d": (1, 2)}, (Field("X", ("n", "T", "d")),)),
    premises=loose,
    violation=turned,
)

if __name__ == "__main__":
    print(hunt(STATEMENT, instances=1500).message)
    without = Statement(
        "any-tokens",
        title="No token matters",
        says="Taking away a token leaves the solution where it is.",
        kind="planted",
        space=STATEMENT.space,
        premises=lambda one: solution(one["X"]) is not None,
        violation=turned,
    )
    found = hunt(without, instances=1500)
    print(found.message)
    print(found.found.instance["X"].tolist())
