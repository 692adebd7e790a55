"""Help a newcomer can read: panels, main commands first, no type on flags, names as they are."""

import re
import subprocess
import sys

import pytest
import typer

from attsvm.cli import PANELS, app
from attsvm.cli.options import NAMES
from attsvm.next_token.training.gradient import READOUTS
from attsvm.norms import NORMS
from attsvm.plotting.style import LOOKS
from attsvm.training.heads import HEADS
from attsvm.training.losses import LOSSES
from attsvm.training.models import MODELS, SENTENCE_MODELS
from attsvm.training.optimizers import OPTIMIZERS
from attsvm.training.optimizers.steps import SCHEDULES
from tests.cli.commanded import PAGE, command_page

COMMANDS = [str(command.name) for command in app.registered_commands]
PANEL = re.compile(r"^╭─ (.+?) ─+╮$", re.M)


def test_names_in_help_are_those_of_the_registries():
    known = {
        "models": MODELS, "sentence_models": SENTENCE_MODELS, "optimizers": OPTIMIZERS,
        "heads": HEADS, "losses": LOSSES, "schedules": SCHEDULES, "norms": NORMS,
        "readouts": READOUTS, "styles": LOOKS,
    }  # fmt: skip
    for key, registry in known.items():
        assert NAMES[key] == tuple(registry), key


def test_the_main_commands_come_first(run):
    done = run("--help")
    assert done.code == 0 and PANEL.findall(done.out) == ["Options", *PANELS]
    places = [done.out.index(f"│ {name} ") for name in COMMANDS]
    assert places == sorted(places) and COMMANDS[:2] == ["solve", "certify"]
    assert "Start with: attsvm example" in done.out and "show-completion" in done.out
    bare = run()
    assert bare.code == 0 and bare.out == done.out and bare.err == ""


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_short_help_and_no_type_on_flags(run, name):
    said = () if name is None else (name,)
    done = run(*said, "-h")
    assert done.code == 0 and done.err == ""
    assert "<bool>" not in done.out and "-h" in done.out
    assert done.out == run(*said, "--help").out
    assert name is None or (f"Example: attsvm {name}" in done.out and "--json" in done.out)


def test_options_are_grouped(run):
    panels = PANEL.findall(run("train", "-h").out)
    assert {"The run", "Its steps", "Output", "Reading a text", "Training on a text"} <= set(panels)
    panels = PANEL.findall(run("sentences", "-h").out)
    assert {"Reading a text", "What is shown", "Output"} <= set(panels)


def test_help_loads_no_solver():
    """Seen in a fresh process: a command loads what it computes with when it is called."""
    code = (
        "import sys; sys.argv = ['attsvm', *{said!r}]; import attsvm.cli as cli\n"
        "assert not {{'numba', 'scipy', 'matplotlib', 'rich'}} & set(sys.modules)\n"
        "assert {{m.split('.')[1] for m in sys.modules if m.startswith('attsvm.')}} == {{\n"
        "    '_utils', 'cli', 'datasets', 'errors'}}\n"
        "try: cli.main()\n"
        "except SystemExit: print(sorted({{'numba', 'scipy', 'matplotlib'}} & set(sys.modules)))"
    )
    for said in (["--help"], ["train", "--help"]):
        done = subprocess.run(
            [sys.executable, "-c", code.format(said=said)], capture_output=True, text=True
        )
        assert done.returncode == 0 and done.stdout.splitlines()[-1] == "[]", done


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("attsvm so", "solve"),
        ("attsvm train --optimizer mi", "mirror:P"),
        ("attsvm solve --norm nu", "nuclear"),
    ],
)
def test_completion(line, found):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv = ['attsvm']; from attsvm.cli import main; main()",
        ],
        capture_output=True,
        text=True,
        env={
            "_ATTSVM_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split()) - 1),
        },
    )
    assert found in done.stdout.split(), done


def test_every_option_is_on_the_page_and_says_what_it_does():
    assert PAGE.read_text("utf-8") == command_page(), "run `make docs`"
    for command in typer.main.get_command(app).commands.values():
        for param in command.params:
            assert (param.help or "").strip().endswith("."), (command.name, param.name)
            assert f"`{param.opts[0]}" in command_page() or param.param_type_name == "argument"
