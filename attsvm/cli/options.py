"""What the commands share: the program, the options that several take, the names that help lists.

A command is a function whose docstring describes its parameters in sections, as NumPy's do; each
section is a panel of its help. Help loads no registry: its names are written out here, and a test
compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from attsvm._utils.files import check_out
from attsvm.datasets import EXAMPLES, SENTENCES, TEXTS
from attsvm.errors import Unsupported

if TYPE_CHECKING:
    from attsvm.norms import Norm

F = TypeVar("F", bound=Callable[..., Any])

# The names that a value may have: help texts list them by {key}, and completion offers them.
NAMES: dict[str, tuple[str, ...]] = {
    "models": (
        *("prompt", "weight", "factored", "joint-prompt", "joint-weight"),
        *("multi-head", "split-heads", "qk-norm"),
    ),
    "sentence_models": ("next-token", "decoder", "joint-next-token"),
    "optimizers": (
        *("gd", "ngd", "polyak", "mirror:P", "nmirror:P"),
        *("sign", "spectral", "signum", "muon", "adam"),
    ),
    "heads": ("linear", "relu", "quadratic"),
    "losses": ("logistic", "exponential", "linear", "squared"),
    "schedules": ("constant", "sqrt"),
    "norms": ("frobenius", "nuclear", "spectral", "max", "l1", "lP"),
    "readouts": ("softmax", "mass"),
    "styles": ("screen", "paper"),
    "examples": (*EXAMPLES, *SENTENCES, *TEXTS),
    "problems": ("selection", "labels", "relaxed", "finite"),
}
PROBLEMS, SENTENCE_MODELS = NAMES["problems"], NAMES["sentence_models"]

# Exit code: something that was run does not hold, could not be run, or differs from its rerun.
FAILED = 5
# The panels of help that the options of a text, and of training on one, are in.
READING, TEXT = "Reading a text", "Training on a text"

# The options that several commands have. A command that describes one says what it is there.
SHARED = """
Arguments
---------
file : FILE
    Problem file (.npz with X, and z, y, v, alpha, …).

Options
-------
norm : NAME
    {norms} such as l1.75, or FILE.py:NAME.
tol : X, default: 1e-8; 1e-6 for nuclear and spectral
    Certified relative gap to reach.
out : FOLDER
    Folder of the results.
jobs : N, at least 0
    Processes; 0 for one per core.
engine : NAME
    local, here, dask or slurm.
address : URL
    Of a dask scheduler, such as tcp://host:8786.
retries : N, at least 0
    How often a failed chunk is tried again.
quick
    Small counts, the same checks.
seeds : N, at least 1, default: those of the study
    Instances at each point.
first : N, at least 0, default: the study's
    Seed of the first instance.

Output
------
style : NAME
    Of the figure: screen, or paper, for a column of 3.25 inches.
force
    Replace an existing output file.
json
    One JSON object on standard output.

Reading a text
--------------
collocations : FILE
    Who follows whom: a file of two-token lines, or bigrams, or copy.
vocabulary : N, at least 1
    Number of tokens; of words the most frequent.
limit : N, at least 1
    Read only so many lines, or sentences of prose.
prose
    A running text: read it by its sentences, not by lines; bigrams by default.
lower
    Put all words in lower case.
strip_punctuation
    Take punctuation off both ends of each word.
shortest : N, at least 1
    Skip lines or sentences of prose of fewer tokens.
"""

_SECTION = re.compile(r"^(.+)\n-{3,}\n", re.M)
_ENTRY = re.compile(
    r"^(?P<name>\w+)(?: : (?P<metavar>[^,\n]+))?(?:, at least (?P<min>\d+))?"
    r"(?:, default: (?P<shown>.+))?\n(?P<help>(?: {4}.+\n?)+)",
    re.M,
)


def described(text: str) -> tuple[str, dict[str, Any]]:
    """(what stands before the first section, the parameter of each entry by name)."""
    about, *parts = _SECTION.split(cleandoc(text) + "\n")
    found = {}
    for section, entries in zip(parts[::2], parts[1::2], strict=True):
        for entry in _ENTRY.finditer(entries):
            found[entry["name"]] = _parameter(section, entry)
    return about.strip(), found


def _parameter(section: str, entry: re.Match[str]) -> Any:
    """The typer parameter of one entry: an argument in the section Arguments, else an option."""
    listed = [NAMES[key] for key in re.findall(r"\{(\w+)\}", entry["help"])]
    texts = {key: ", ".join(names) for key, names in NAMES.items()}
    about: dict[str, Any] = {
        "metavar": entry["metavar"],
        "help": " ".join(entry["help"].split()).format_map(texts),
        "autocompletion": completed(*sum(listed, ())) if listed else None,
    }
    if section == "Arguments":
        return typer.Argument(**about)
    about["min"] = None if entry["min"] is None else int(entry["min"])
    about["show_default"] = entry["shown"] or True
    about["rich_help_panel"] = None if section == "Options" else section
    return typer.Option(f"--{entry['name'].replace('_', '-')}", **about)


def command(example: str) -> Callable[[F], F]:
    """Decorator that adds a function to the program, with an example of its use.

    Its parameters are described in its docstring, or are those of SHARED. A trailing underscore is
    no part of an option's name.
    """

    def add(function: F) -> F:
        about, own = described(function.__doc__ or "")
        for name, hint in get_type_hints(function).items():
            key = name.removesuffix("_")
            if key in own or key in _SHARED:
                parameter = own.get(key, _SHARED.get(key))
                function.__annotations__[name] = Annotated[hint, parameter]
        name = function.__name__.removesuffix("_command")
        said = f"Example: attsvm {name} {example}"
        app.command(name, help=about, epilog=said)(function)
        return function

    return add


class _Plain:
    """Help in which flags have no type, brackets are no markup, and lines end with the screen."""

    def __init__(self, *names: Any, **settings: Any) -> None:
        super().__init__(*names, **settings)
        for one in (self, *self.params):  # type: ignore[attr-defined]
            paragraphs = (getattr(one, "help", None) or "").replace("[", r"\[").split("\n\n")
            one.help = "\n\n".join(" ".join(part.split()) for part in paragraphs)

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, `--help` among them."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if isinstance(param, TyperOption) and param.is_flag:
                param.metavar = ""
        return params


class Command(_Plain, TyperCommand):
    """A command."""


class ProgramGroup(_Plain, TyperGroup):
    """The program itself."""


app = typer.Typer(
    cls=ProgramGroup,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Which tokens softmax attention selects, with proof: certified max-margin directions.",
    epilog="Start with: attsvm example multi-input --out tokens.npz, then attsvm solve tokens.npz",
)


def completed(*names: str) -> Callable[[str], list[str]]:
    """A function that completes the beginning of one of these names."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


_SHARED = described(SHARED)[1]


def read_norm(text: str) -> Norm:
    """The norm of this name, or the one that `FILE.py:NAME` names: an object, or its class."""
    from attsvm._utils.objects import is_outside, load_object
    from attsvm.norms import norm_of

    if not is_outside(text):
        return norm_of(text)
    found: Any = load_object(text, "a norm")
    return norm_of(found() if isinstance(found, type) else found)


def read_pairs(texts: list[str] | None, example: str, option: str = "--option") -> dict[str, str]:
    """The values by name of an option NAME=VALUE that may be given several times."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, _, value = text.partition("=")
        if not (name and value):
            raise Unsupported(f"{option} is {text!r}: write NAME=VALUE, such as {example}")
        if name in found:
            raise Unsupported(f"{option} {name} is given twice")
        found[name] = value
    return found


def check_figure(figure: Path | None, style: str, *, force: bool) -> None:
    """Raises an error unless the figure can be written, in this style."""
    if style not in NAMES["styles"]:
        raise Unsupported(f"--style is {style!r}: known are {', '.join(NAMES['styles'])}")
    if figure is None:
        if style != "screen":
            raise Unsupported("--style is that of a figure: give --figure FILE as well")
        return
    check_out(figure, force=force)
    from attsvm.plotting.style import check_format

    check_format(figure)
