"""What a computation would need in memory, reported before anything is allocated."""

from __future__ import annotations

import os
from pathlib import Path

from attsvm.errors import TooLarge

# The share of free memory that a computation may plan with: estimates are rough, and the system
# ends a process that takes the last of it without a message.
HEADROOM = 0.8

# How many processes like this one work at the same time.
_sharers = 1


def share_with(count: int) -> None:
    """From here on this process plans with its part of what is free: 1/count."""
    global _sharers
    _sharers = max(count, 1)


def available() -> float:
    """Bytes that this process can have without swapping; inf where the system does not say."""
    return min(_of_the_machine(), _of_the_group()) / _sharers


def _of_the_machine() -> float:
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


def _of_the_group(folder: Path = Path("/sys/fs/cgroup")) -> float:
    """What a container's own limit leaves; inf without one."""
    for most, now in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            limit = float((folder / most).read_text("ascii"))
            return max(limit - float((folder / now).read_text("ascii")), 0.0)
        except (OSError, ValueError):  # no such file, or the text 'max'
            continue
    return float("inf")


def require(need: float, what: str, *, use: str = "fewer inputs or features") -> None:
    """Raises TooLarge, with both figures, unless `need` bytes are free, with a margin.

    use: what would need less.
    """
    free = available()
    if need > HEADROOM * free:
        raise TooLarge(
            f"{what} would need about {need / 1e9:.3g} GB of memory and {free / 1e9:.3g} GB are "
            f"free; use {use}"
        )
