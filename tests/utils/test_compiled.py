"""The door to numba: cached where it can be, compiled all the same where it cannot."""

import numba
import pytest

from attsvm._utils.compiled import njit


def shifted(x):
    """A function of a real file: numba can cache it."""
    return x + 1.0


def homeless():
    """A function that comes from no file, so that there is nowhere to cache it."""
    space: dict = {}
    exec("def doubled(x):\n    return 2.0 * x", space)
    return space["doubled"]


def test_caches_where_it_can(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    kernel = njit()(shifted)
    assert kernel(1.0) == 2.0
    assert list(tmp_path.rglob("*shifted*.nbc"))


def test_compiles_where_it_cannot_cache():
    with pytest.raises(RuntimeError, match="cannot cache"):
        numba.njit(cache=True)(homeless())
    kernel = njit()(homeless())
    assert kernel(3.0) == 6.0
    assert kernel.nopython_signatures


def test_options_reach_numba():
    assert njit(nogil=True)(shifted).targetoptions["nogil"]


def test_fastmath_is_refused():
    with pytest.raises(ValueError, match="fastmath"):
        njit(fastmath=True)
