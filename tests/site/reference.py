"""The public names as the site lists them."""

import sys
from importlib import import_module
from importlib.util import find_spec

from tests.conventions.tree import ROOT

sys.path.append(str(ROOT / "docs"))

from _site import docstrings, reference, sources

import attsvm

__all__ = ["docstrings", "public", "public_names", "reference", "sources"]


def rooms() -> dict[str, object]:
    """The modules with public names, by the name under which users know them."""
    absent = {"attsvm.torch": "torch", "attsvm.estimator": "sklearn"}
    found = [name for name in reference.ROOMS if find_spec(absent.get(name, "attsvm"))]
    return {reference.KNOWN_AS.get(name, name): import_module(name) for name in found}


def public() -> dict[str, object]:
    """Dotted name -> thing, of everything public, each once."""
    found = {f"attsvm.{name}": getattr(attsvm, name) for name in attsvm.__all__}
    for known, module in rooms().items():
        for name in reference.public(module):
            if not reference.at_the_door(module, name):
                found[f"{known}.{name}"] = getattr(module, name)
    return found


def public_names() -> list[str]:
    """The dotted names of everything public but modules, which have a page."""
    modules = (attsvm.next_token, attsvm.measures)
    return [name for name, thing in public().items() if thing not in modules]
