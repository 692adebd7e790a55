"""What the commands share: the program, the options that several take, the names that help lists.

Help loads no registry: its names are written out here, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from attsvm._utils.files import check_out
from attsvm.errors import Unsupported

if TYPE_CHECKING:
    from attsvm.norms import Norm

MODELS = ("prompt", "weight", "factored", "joint-prompt", "joint-weight")
SENTENCE_MODELS = ("next-token", "decoder", "joint-next-token")
OPTIMIZERS = (
    "gd",
    "ngd",
    "polyak",
    "mirror:P",
    "nmirror:P",
    "sign",
    "spectral",
    "signum",
    "muon",
    "adam",
)
HEADS = ("linear", "relu", "quadratic")
LOSSES = ("logistic", "exponential", "linear", "squared")
SCHEDULES = ("constant", "sqrt")
NORMS = ("frobenius", "nuclear", "spectral", "max", "l1", "lP")
READOUTS = ("softmax", "mass")
WEIGHTS = ("empirical", "uniform")
STYLES = ("screen", "paper")
EMBEDDINGS = ("orthonormal", "normal")
# The problems a file can pose.
PROBLEMS = ("selection", "labels", "relaxed", "finite", "any")

# The panel of a help page that several commands share.
OUTPUT = "Output"
# Exit code: something that was run does not hold, could not be run, or differs from its rerun.
FAILED = 5


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


def option(
    name: str,
    metavar: str | None,
    help: str,
    panel: str | None = None,
    names: tuple[str, ...] = (),
    **more: Any,
) -> Any:
    """An option of a command; names: what its value is completed to."""
    more["autocompletion"] = completed(*names) if names else None
    return typer.Option(name, metavar=metavar, help=help, rich_help_panel=panel, **more)


def completed(*names: str) -> Callable[[str], list[str]]:
    """A function that completes the beginning of one of these names."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Problem file (.npz with X, and z, y, v, alpha, …)."),
]
NormName = Annotated[
    str,
    option(
        "--norm",
        "NAME",
        "frobenius, nuclear, spectral, max, l1, lP such as l1.75, or FILE.py:NAME.",
        names=NORMS,
    ),
]
Tol = Annotated[
    float | None,
    option(
        "--tol",
        "X",
        "Certified relative gap to reach.",
        show_default="1e-8; 1e-6 for nuclear and spectral",
    ),
]
Json = Annotated[bool, option("--json", None, "One JSON object on standard output.", OUTPUT)]
Out = Annotated[Path | None, option("--out", "FILE", "Write the result to this .npz file.", OUTPUT)]
Style = Annotated[
    str,
    option(
        "--style",
        "NAME",
        "Of the figure: screen, or paper, for a column of 3.25 inches.",
        OUTPUT,
        STYLES,
    ),
]
Force = Annotated[bool, option("--force", None, "Replace an existing output file.", OUTPUT)]
Jobs = Annotated[int, option("--jobs", "N", "Processes; 0 for one per core.", min=0)]

# The options of a text, and of training on one.
READING, TEXT = "Reading a text", "Training on a text"

Collocations = Annotated[
    str | None,
    option(
        "--collocations",
        "FILE",
        "Who follows whom: a file of two-token lines, or bigrams, or copy.",
        READING,
        ("bigrams", "copy"),
    ),
]
Vocabulary = Annotated[
    int | None,
    option("--vocabulary", "N", "Number of tokens; of words the most frequent.", READING, min=1),
]
Limit = Annotated[
    int | None,
    option("--limit", "N", "Read only so many lines, or sentences of prose.", READING, min=1),
]
Prose = Annotated[
    bool,
    option(
        "--prose",
        None,
        "A running text: read it by its sentences, not by lines; bigrams by default.",
        READING,
    ),
]
Lower = Annotated[bool, option("--lower", None, "Put all words in lower case.", READING)]
Strip = Annotated[
    bool,
    option("--strip-punctuation", None, "Take punctuation off both ends of each word.", READING),
]
Shortest = Annotated[
    int | None,
    option("--shortest", "N", "Skip lines or sentences of prose of fewer tokens.", READING, min=1),
]
Unseen = Annotated[
    int | None,
    option(
        "--unseen",
        "N",
        "Ask so many sentences that training did not see.",
        TEXT,
        min=1,
        max=1_000_000,
    ),
]
DecoderLr = Annotated[
    float | None, option("--decoder-lr", "X", "next-token: step size of the first stage.", TEXT)
]
DecoderSteps = Annotated[
    int | None, option("--decoder-steps", "N", "next-token: steps of the first stage.", TEXT, min=0)
]
Readout = Annotated[
    str, option("--readout", "NAME", f"next-token: {' or '.join(READOUTS)}.", TEXT, READOUTS)
]
Weights = Annotated[
    str, option("--weights", "NAME", f"Of the sentences: {' or '.join(WEIGHTS)}.", TEXT, WEIGHTS)
]
Embedding = Annotated[
    str,
    option("--embedding", "NAME", f"Of the tokens: {' or '.join(EMBEDDINGS)}.", TEXT, EMBEDDINGS),
]
Dimension = Annotated[int | None, option("--dimension", "N", "Size of the embedding.", TEXT, min=1)]
Ties = Annotated[
    bool, option("--ties", None, "Accept what is not realizable, cycles as ties.", TEXT)
]
AddCollocations = Annotated[
    bool,
    option("--add-collocations", None, "joint-next-token: add the collocations' loss.", TEXT),
]


def read_norm(text: str) -> Norm:
    """The norm of this name, or the one that `FILE.py:NAME` names: an object, or its class."""
    from attsvm._utils.objects import is_outside, load_object
    from attsvm.norms import norm_of

    if not is_outside(text):
        return norm_of(text)
    found: Any = load_object(text, "a norm")
    return norm_of(found() if isinstance(found, type) else found)


def check_figure(figure: Path | None, style: str, *, force: bool) -> None:
    """Raises an error unless the figure can be written, in this style."""
    if style not in STYLES:
        raise Unsupported(f"--style is {style!r}: known are {', '.join(STYLES)}")
    if figure is None:
        if style != STYLES[0]:
            raise Unsupported("--style is that of a figure: give --figure FILE as well")
        return
    check_out(figure, force=force)
    from attsvm.plotting.style import check_format

    check_format(figure)
