"""The page of the command line: the help of every command, as the terminal shows it."""

import os
import subprocess
import sys

from _site.reference import page, save

WIDTH = "88"
# Prints the help of the program and of each command, under a line with a form feed and its name.
HELP = """
from attsvm.cli import app
names = [command.name for command in app.registered_commands if not command.hidden]
for words in ([], *([name] for name in names)):
    print("\\f" + " ".join(["attsvm", *words]), flush=True)
    app([*words, "--help"], prog_name="attsvm", standalone_mode=False)
"""


def helps():
    """Command -> the lines that it prints under --help."""
    env = os.environ | {
        "COLUMNS": WIDTH,
        "TERMINAL_WIDTH": WIDTH,
        "NO_COLOR": "1",
        "TERM": "dumb",
        "PYTHONPATH": os.pathsep.join(sys.path[:2]),
    }
    done = subprocess.run(
        [sys.executable, "-c", HELP], capture_output=True, text=True, env=env, check=True
    )
    parts = [part.partition("\n") for part in done.stdout.split("\f")[1:]]
    return {name: text.strip("\n").splitlines() for name, _, text in parts}


def write(folder):
    """Write the page into this folder."""
    lines = ["Every command takes ``--help``, which is shown here.", ""]
    for name, text in helps().items():
        shown = [f"   {line}".rstrip() for line in text if line.strip()]
        lines += [name, "-" * len(name), "", ".. code-block:: text", "", *shown, ""]
    save(folder / "commands.rst", page("Command line", lines))
