"""The public names: they exist, and each says what it is."""

import inspect
from dataclasses import is_dataclass

import attsvm
from attsvm._utils.version import __version__


def own_docstring(thing: object) -> str:
    """What was written for this thing itself, without what Python or `dataclass` would add."""
    text = vars(thing).get("__doc__") if inspect.isclass(thing) else getattr(thing, "__doc__", None)
    text = text or ""
    if inspect.isclass(thing) and is_dataclass(thing) and text.startswith(f"{thing.__name__}("):
        return ""
    return text.strip()


def members(cls: type) -> dict[str, object]:
    """The public methods and properties that a class defines itself."""
    found = {}
    for name, value in vars(cls).items():
        inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if not name.startswith("_") and (inspect.isfunction(inner) or isinstance(inner, property)):
            found[name] = inner
    return found


def silent(names: dict[str, object]) -> list[str]:
    """Those of the modules, classes and functions, and of the classes' members, without a word."""
    found = []
    for name, thing in names.items():
        if not (inspect.ismodule(thing) or inspect.isclass(thing) or inspect.isroutine(thing)):
            continue  # a constant is explained by the comment above it
        if not own_docstring(thing):
            found.append(name)
        if inspect.isclass(thing):
            found += [f"{name}.{m}" for m, value in members(thing).items() if not value.__doc__]
    return found


def test_listed_names_exist_once():
    missing = [name for name in attsvm.__all__ if not hasattr(attsvm, name)]
    assert not missing, f"attsvm.__all__ lists what attsvm lacks: {missing}"
    assert len(set(attsvm.__all__)) == len(attsvm.__all__)


def test_public_names_say_what_they_are():
    found = silent({name: getattr(attsvm, name) for name in attsvm.__all__})
    assert not found, f"no docstring: {found}"


def test_version_has_one_source():
    assert attsvm.__version__ == __version__
