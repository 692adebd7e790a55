"""The specs that come with the package, by name."""

from __future__ import annotations

from importlib.resources import files

from attsvm._utils.files import parse_toml
from attsvm.errors import Unsupported
from attsvm.experiments.sweep.nearest import unknown
from attsvm.experiments.sweep.spec import Spec, spec_of

_SPECS = files("attsvm.experiments.sweep").joinpath("specs")
# The names, in alphabetical order.
SHIPPED = sorted(
    file.name.removesuffix(".toml") for file in _SPECS.iterdir() if file.name.endswith(".toml")
)


def shipped_spec(name: str, *, quick: bool = False) -> Spec:
    """The shipped spec of this name; quick: with smaller counts.

    >>> shipped_spec("separability", quick=True).work.family
    'gaussian'
    """
    if name not in SHIPPED:
        raise Unsupported(f"{unknown('sweep', name, SHIPPED)}, or a file SPEC.toml")
    return spec_of(
        parse_toml(_SPECS.joinpath(f"{name}.toml").read_text("utf-8")), name, quick=quick
    )
