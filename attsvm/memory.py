"""What a computation would need in memory, said before anything is allocated."""

from __future__ import annotations

import os

from attsvm.errors import BadTokens


def available() -> float:
    """Bytes that can be had without swapping; inf where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return float(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def require(need: float, what: str) -> None:
    """Nothing; an error with both figures when `need` bytes are not to be had."""
    free = available()
    if need > free:
        raise BadTokens(
            f"{what} would need about {need / 1e9:.3g} GB of memory and {free / 1e9:.3g} GB are "
            "free; use fewer inputs or features"
        )
