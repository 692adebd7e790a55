"""Prints the digits of four solves and one training run, to compare processors.

`python -m tests.baseline.portability` needs NumPy, SciPy and numba alone.
"""

import platform

import numpy as np

import attsvm


def main() -> None:
    """One line per number, each with all its digits."""
    rng = np.random.default_rng(0)
    X, z, v = rng.standard_normal((6, 8, 10)), rng.standard_normal((6, 10)), rng.standard_normal(10)
    tokens = attsvm.Tokens(X, queries=z, labels=[1, -1, 1, -1, 1, -1])
    problem = attsvm.Problem.of(tokens, attsvm.Selection.best(tokens, v))
    print(f"{platform.machine()}, NumPy {np.__version__}")
    for norm in ("frobenius", "nuclear", "spectral", "l1.75"):
        best = attsvm.solve(problem, norm=norm)
        exact = best.verify(exact=True).ok
        print(f"{norm}: {best.status}, lower {best.lower!r}, upper {best.upper!r}, exact {exact}")
    path = attsvm.train(tokens, model="weight", optimizer="ngd", head=v, lr=0.1, steps=2000)
    found = attsvm.outcome(path, tokens, v)
    print(f"train: {found.state}, selection {found.selection.tolist()}")
    numbers = {
        "correlation": found.correlation,
        "margin share": found.margin_share,
        "log10 of the gradient": found.log10_gradient,
        "Frobenius norm of W": np.linalg.norm(found.W),
    }
    for name, value in numbers.items():
        print(f"train: {name} {float(value)!r}")


if __name__ == "__main__":
    main()
