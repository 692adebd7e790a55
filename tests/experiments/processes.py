"""What a test knows of processes it did not start itself: read from /proc."""

import os
import signal
from pathlib import Path


def alive(process: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def children(process: int) -> list[int]:
    """The processes that this one started and that still run, then theirs."""
    try:
        listed = [
            Path(f"/proc/{process}/task/{task}/children").read_text().split()
            for task in os.listdir(f"/proc/{process}/task")
        ]
    except (FileNotFoundError, ProcessLookupError):
        return []
    own = [int(child) for line in listed for child in line]
    return own + [grandchild for child in own for grandchild in children(child)]


def heeds_interrupts():
    """Interrupts end the process, though it was started where they are ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
