"""Each optimizer's run has its largest margin share in its own norm."""

from __future__ import annotations

import pytest

from tests.theory.shares import OWN, certified, shares


@pytest.fixture(scope="module")
def made():
    """The instances and their certificates."""
    return certified()


@pytest.mark.parametrize(("model", "optimizer"), OWN)
def test_the_own_norm_has_the_largest_margin_share(made, model, optimizer):
    share = shares(*made, model, optimizer)
    own = OWN[model, optimizer]
    assert max(share, key=lambda norm: share[norm]) == own, share
    assert share[own] > 0.98, share
