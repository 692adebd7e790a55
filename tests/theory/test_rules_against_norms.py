"""Each rule's run has its largest margin share in its own norm."""

from __future__ import annotations

import pytest

from tests.theory.shares import OWN, certified, shares


@pytest.fixture(scope="module")
def made():
    """The instances and their certificates."""
    return certified()


@pytest.mark.parametrize(("model", "rule"), OWN)
def test_the_own_norm_has_the_largest_margin_share(made, model, rule):
    share = shares(*made, model, rule)
    own = OWN[model, rule]
    assert max(share, key=lambda norm: share[norm]) == own, share
    assert share[own] > 0.98, share
