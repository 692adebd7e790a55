"""The norms of the checker of saved certificates: never below the truth, and near it."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from types import ModuleType

import numpy as np
import pytest

from attsvm.norms.rational import Exact
from tests.certificate.saved_cases import NORMS
from tests.conventions.tree import ROOT
from tests.plain_fractions import REFERENCE, TIGHTNESS, reference

TOOL = ROOT / "tools" / "check_certificate.py"


@cache
def tool() -> ModuleType:
    """The checker as a module, to look at its norms."""
    module = ModuleType("check_certificate")
    exec(compile(TOOL.read_text("utf-8"), str(TOOL), "exec"), vars(module))
    return module


def test_roots_and_powers_are_rounded_up():
    root, power, one = tool().root, tool().power, 1 << tool().BITS
    assert [root(Fraction(n, 4)) for n in (0, 1, 9)] == [0, Fraction(1, 2), Fraction(3, 2)]
    for x in (Fraction(2), Fraction(1, 3), Fraction(10**400 + 1), Fraction(1, 10**400 + 1)):
        assert x < root(x) ** 2 < x * (1 + Fraction(1, 10**50))
    for x in (one // 3, one // 7 + 1, 5 * one, 1):
        half, close = power(x, Fraction(1, 2)), 1 + Fraction(1, 10**25)
        assert x * one <= half**2 <= x * one * close
        third = power(x, Fraction(1, 3))
        assert x * one**2 <= third**3 <= x * one**2 * close
        if x <= one:
            once_and_half = power(x, Fraction(3, 2))
            assert x**3 <= once_and_half**2 * one <= (x**3 + one**2) * close


@pytest.mark.parametrize("norm", ["nuclear", "spectral"])
def test_poor_singular_vectors_do_no_harm(norm, monkeypatch):
    """Whatever the decomposition hands over, the bound is not below the norm."""
    rng = np.random.default_rng(6)
    W = rng.standard_normal((4, 3))
    right = reference(norm, Exact.of(W))
    U, s, V = np.linalg.svd(W / 4, full_matrices=False)  # 4: the power of two above its entries
    for part in range(3):
        for share in (1e-3, -1e-3, 0.5, -0.5):
            poor = [U, s, V]
            poor[part] = poor[part] * (1 + share * rng.random(poor[part].shape))
            monkeypatch.setattr(np.linalg, "svd", lambda *a, poor=poor, **k: poor)
            assert tool().above(norm, tool().exact(W)) >= right * (1 - REFERENCE)
    for longer in ((2 * U, s / 2, V), (U, s / 2, 2 * V)):  # nothing is left over here
        monkeypatch.setattr(np.linalg, "svd", lambda *a, poor=longer, **k: poor)
        assert tool().above(norm, tool().exact(W)) >= right * (1 - REFERENCE)


@pytest.mark.parametrize("scale", [1.0, 1e-225, 1e200])
@pytest.mark.parametrize("shape", [(4, 5), (3, 1), (1, 1)])
@pytest.mark.parametrize("norm", [*NORMS, "l2", "l1.1", "l10"])
def test_norms_are_bounded_from_above(norm, shape, scale):
    """Not below the norm to 50 digits, and above it by little."""
    W = np.random.default_rng(5).standard_normal(shape) * scale
    name = norm if norm in tool().DUAL else Fraction(norm[1:])
    bound, right = tool().above(name, tool().exact(W)), reference(norm, Exact.of(W))
    slack = TIGHTNESS if norm in ("nuclear", "spectral") else Fraction(1, 10**20)
    assert right * (1 - REFERENCE) <= bound <= right * (1 + slack)


@pytest.mark.parametrize("p", ["1.0000000001", "1.5", "2", "64", "99999999"])
def test_powers_are_bounded_from_above(p):
    tool_, entries = tool(), np.array([[1.0, 0.75, 1e-30, 0.0]])
    bound = tool_.above(Fraction(p), tool_.exact(entries))
    right = reference(f"l{p}", Exact.of(entries))
    assert right * (1 - REFERENCE) <= bound <= right * (1 + Fraction(1, 10**20))
    assert tool_.above(Fraction(p), tool_.exact(np.array([[0.0, -3.0]]))) == 3
