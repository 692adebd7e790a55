"""Tasks that end well, raise, kill their process or take their time."""

import os
import signal
import time
from pathlib import Path

from attsvm.errors import BadTokens


def square(task):
    """The square of a number."""
    return task * task


def odd_fails(task):
    """The number, if it is even."""
    if task % 2:
        raise ValueError(f"{task}\nis odd")
    return task


def refused(task):
    """Nothing: raises what attsvm raises on purpose, and counts its calls in a file."""
    folder, name = task
    with Path(folder, name).open("a") as file:
        file.write("x")
    raise BadTokens("this is no good")


def first_time_fails(task):
    """The task, from the second call on."""
    file = Path(task)
    if not file.exists():
        file.write_text("")
        raise OSError("not yet")
    return task


def dies(task):
    """The number; three ends its process, every time."""
    if task == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
    return task


def dies_once(task):
    """The number; its process ends the first time that a number below four is asked for."""
    folder, number = task
    file = Path(folder, str(number))
    if number < 4 and not file.exists():
        file.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def where(task):
    """The process that does the task, and how many threads it may use."""
    return os.getpid(), os.environ["OMP_NUM_THREADS"]


def sleeps(task):
    """Nothing, after a long time; leaves a file with its process while it sleeps."""
    Path(task, str(os.getpid())).write_text("")
    time.sleep(120)
