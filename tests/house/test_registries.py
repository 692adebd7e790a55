"""A folder of plug-ins and its registry list the same things: what is listed is tested."""

import importlib
import inspect
from dataclasses import fields, is_dataclass, make_dataclass

import pytest

from attsvm.claims import CLAIMS, SUPPORT
from tests.house.tree import PACKAGE

REGISTRIES = {
    "norms": "NORMS",
    "solvers": "SOLVERS",
    "data": "EXAMPLES",
    "losses": "LOSSES",
    "heads": "HEADS",
    "models": "MODELS",
    "rules": "RULES",
    "bench": "CONTESTANTS",
}


def homes(entry: object) -> set[str]:
    """The modules an entry comes from: a function's or class's own; a record's parts' as well."""
    if inspect.isroutine(entry) or inspect.isclass(entry):
        return {entry.__module__}
    found = {type(entry).__module__}
    if is_dataclass(entry):
        parts = [getattr(entry, field.name) for field in fields(entry)]
        found |= {part.__module__ for part in parts if inspect.isroutine(part)}
    return found


def faults(folder: str, *, stems: set[str], support: set[str], registry: dict) -> list[str]:
    """How a folder (its module names, its support list) and its registry disagree."""
    found = [
        f"SUPPORT of attsvm/{folder} names {stem!r}, which is not there"
        for stem in sorted(support - stems)
    ]
    prefix = f"attsvm.{folder}."
    used = set()
    for key, entry in registry.items():
        here = {name.removeprefix(prefix) for name in homes(entry) if name.startswith(prefix)}
        if not here - support:
            found.append(f"entry {key!r} comes from no plug-in module of attsvm/{folder}")
        used |= here
    found += [
        f"attsvm/{folder}/{stem}.py is not in the registry: add an entry, or name it in SUPPORT"
        for stem in sorted(stems - support - used)
    ]
    return found


@pytest.mark.parametrize(("folder", "name"), REGISTRIES.items())
def test_folder_and_registry_agree(folder, name):
    package = importlib.import_module(f"attsvm.{folder}")
    stems = {path.stem for path in (PACKAGE / folder).glob("*.py")} - {"__init__"}
    found = faults(
        folder, stems=stems, support=set(package.SUPPORT), registry=getattr(package, name)
    )
    assert not found, "\n".join(found)


def test_claims_are_named_after_their_modules():
    stems = {path.stem for path in (PACKAGE / "claims").glob("*.py")} - {"__init__", *SUPPORT}
    assert {f"attsvm.claims.{stem}" for stem in stems} == {c.module for c in CLAIMS.values()}
    assert all(key == claim.id for key, claim in CLAIMS.items())


def plug_in():
    """Stands for a plug-in's function."""


def test_a_disagreement_is_seen():
    plug_in.__module__ = "attsvm.norms.cubic"
    good = {"stems": {"cubic", "norm"}, "support": {"norm"}, "registry": {"cubic": plug_in}}
    assert faults("norms", **good) == []
    assert "not in the registry" in faults("norms", **good | {"registry": {}})[0]
    assert "which is not there" in faults("norms", **good | {"support": {"norm", "gone"}})[0]
    assert "comes from no plug-in" in faults("norms", **good | {"registry": {"c": faults}})[0]


def test_a_record_comes_from_its_parts():
    record = make_dataclass("Record", ["run"])(faults)
    assert __name__ in homes(record)
