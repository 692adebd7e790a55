"""The machine, the versions and the thread settings written with every result."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from attsvm._utils.version import __version__

# One thread in every library a contestant may use.
THREADS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}
_PACKAGES = ("numpy", "scipy", "numba", "cvxpy", "clarabel", "scs", "osqp", "daqp", "torch")


def machine_facts() -> dict[str, Any]:
    """What the measurements ran on, as a JSON-able dict."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "load": _load(),
        "python": platform.python_version(),
        "packages": {"attsvm": __version__} | {name: _version(name) for name in _PACKAGES},
        "threads": dict(THREADS),
    }


def _cpu() -> str:
    """The model name of the processor."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.lower().startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _load() -> float | None:
    """The number of running processes of the last minute, where the system tells."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def _version(package: str) -> str | None:
    """The version of an installed package, None without it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
