"""A short hunt for false proofs; `python -m tests.theory.convergence.hunt` is the long one."""

from collections import Counter

import pytest

from tests.theory.convergence.hunt import tried


def test_no_false_proof_is_found():
    tally: Counter[str] = Counter()
    for seed in range(21):
        family, wrong, counts = tried(seed)
        assert not wrong, (family, wrong)
        tally += counts
    assert tally["tube"] > 30 and tally["level"] > 3


@pytest.mark.slow
def test_no_false_proof_is_found_in_a_long_hunt():
    wrong = [line for seed in range(700) for line in tried(seed)[1]]
    assert not wrong, "\n".join(wrong)
