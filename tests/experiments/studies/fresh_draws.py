"""Every claim on draws that nobody has looked at: `python -m tests.experiments.studies.fresh_draws
SEED [ID…]`.

The thresholds of a claim stay, its random instances and starts are others: each seed s that the
claim hands to NumPy becomes (SEED, s). Published draws, which come from torch's stream, stay.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from attsvm.experiments.studies import CLAIMS
from attsvm.experiments.studies.claim import Finding


@contextmanager
def shifted(seed: int) -> Iterator[None]:
    """A context in which every NumPy generator with a seed is another one."""
    plain = np.random.default_rng

    def other(given: Any = None) -> np.random.Generator:
        if given is None or isinstance(given, np.random.Generator):
            return plain(given)
        return plain([seed, *np.atleast_1d(given).tolist()])

    with patch("numpy.random.default_rng", other):
        yield


def judged(name: str, seed: int, *, quick: bool = False) -> Finding:
    """What the check finds on fresh draws."""
    claim = CLAIMS[name]
    config = claim.quick if quick else claim.full
    with shifted(seed):
        return claim.check(config, claim.run(config))


def main(seed: int, names: list[str]) -> None:
    """Print the verdict of each claim, what was judged, and the tests that are not met."""
    for name in names or CLAIMS:
        found = judged(name, seed)
        print(f"{name}: {found.verdict} ({found.premises})", flush=True)
        if found.reason:
            print(f"    {found.reason}", flush=True)
        for test in found.tests:
            if test.met is False:
                print(f"    {test.what}: {test.seen:.6g}, asked {test.asked}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
