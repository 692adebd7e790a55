"""A folder of plug-ins and its registry list the same things: what is listed is tested."""

import importlib
import inspect
from dataclasses import fields, is_dataclass, make_dataclass

import pytest

from attsvm.training.heads import Head
from attsvm.training.losses import Loss
from attsvm.training.models import Model, SentenceModel
from tests.conventions.tree import PACKAGE

REGISTRIES = {
    "norms": "NORMS",
    "solvers": "SOLVERS",
    "datasets": "EXAMPLES SENTENCES TEXTS LABELLED",
    "training.optimizers": "OPTIMIZERS",
    "experiments.statements": "STATEMENTS",
    "experiments.executors": "ENGINES",
}


# The functions users call, beside the plug-ins they call, base classes of other names, and parts.
OTHERS = {
    "training.optimizers": {"steps"},
    "norms": {"rational"},
    "datasets": {"labelled"},
    "solvers": {
        *("solve", "solve_many", "solve_sets"),
        # What several solvers share.
        *("unit_rows", "working_set", "linear_program", "lp_interior_point", "power", "cone"),
    },
    "experiments.executors": {"map_tasks", "engine"},
}


def others(folder: str) -> set[str]:
    """The modules of a package that are no plug-ins: its base class and its public functions.

    The base class is named in the singular. Everything else directly in the package is a plug-in;
    parts live in subpackages.
    """
    name = folder.split(".")[-1].removesuffix("s")
    return {{"losse": "loss", "familie": "family"}.get(name, name)} | OTHERS.get(folder, set())


def homes(entry: object) -> set[str]:
    """The modules an entry comes from: a function's or class's own; a record's parts' as well."""
    if inspect.isroutine(entry) or inspect.isclass(entry):
        return {entry.__module__}
    found = {type(entry).__module__}
    if is_dataclass(entry):
        parts = [getattr(entry, field.name) for field in fields(entry)]
        found |= {part.__module__ for part in parts if inspect.isroutine(part)}
    return found


def faults(folder: str, *, stems: set[str], other: set[str], registry: dict) -> list[str]:
    """How a folder (its module names, those that are no plug-ins) and its registry disagree."""
    found = []
    prefix = f"attsvm.{folder}."
    used = set()
    for key, entry in registry.items():
        here = {name.removeprefix(prefix) for name in homes(entry) if name.startswith(prefix)}
        if not here - other:
            found.append(f"entry {key!r} comes from no plug-in module of attsvm/{folder}")
        used |= here
    found += [
        f"attsvm/{folder}/{stem}.py is not in the registry: add an entry, or make it a part of a "
        "subfolder"
        for stem in sorted(stems - other - used)
    ]
    return found


@pytest.mark.parametrize(
    ("module", "kind", "names"),
    [
        ("training.losses", Loss, "LOSSES"),
        ("training.heads", Head, "HEADS"),
        ("training.models", Model | SentenceModel, "MODELS SENTENCE_MODELS"),
    ],
)
def test_a_module_and_its_registry_agree(module, kind, names):
    found = vars(importlib.import_module(f"attsvm.{module}"))
    listed = [entry for name in names.split() for entry in found[name].values()]
    for name, thing in found.items():
        plugin = isinstance(thing, kind) or (inspect.isclass(thing) and thing.__base__ is kind)
        assert not plugin or any(thing is entry for entry in listed), f"{name} is not in {names}"


@pytest.mark.parametrize(("folder", "names"), REGISTRIES.items())
def test_folder_and_registry_agree(folder, names):
    package = importlib.import_module(f"attsvm.{folder}")
    stems = {path.stem for path in (PACKAGE / folder.replace(".", "/")).glob("*.py")}
    registry = {}
    for name in names.split():
        registry |= getattr(package, name)
    found = faults(folder, stems=stems - {"__init__"}, other=others(folder), registry=registry)
    assert not found, "\n".join(found)


def test_studies_are_named_after_their_modules():
    """`B.rank` is studies/b/rank.py; a module of the folders defines STUDY or STUDIES."""
    from attsvm.experiments.studies import PAPERS, studies

    stems = {(p, f.stem) for p in PAPERS for f in (PACKAGE / "experiments/studies" / p).glob("*.py")
             if f.stem != "__init__"}  # fmt: skip
    found = set()
    for paper, stem in stems:
        module = importlib.import_module(f"attsvm.experiments.studies.{paper}.{stem}")
        given = getattr(module, "STUDIES", None) or [module.STUDY]
        for study in given:
            letter, _, name = study.id.partition(".")
            assert letter.lower() == paper and studies()[study.id] is study
            found.add(study.id)
            if study.id != "beyond.rules-against-norms":
                assert name.replace("-", "_").startswith(stem)
    assert found == set(studies())


def test_a_function_and_its_name_agree():
    from attsvm.experiments.families import FAMILIES
    from attsvm.experiments.measures import MEASURES

    for registry in (FAMILIES, MEASURES):
        for name, function in registry.items():
            assert function.__name__ == name.replace("-", "_")


def plug_in():
    """Stands for a plug-in's function."""


def test_a_disagreement_is_seen():
    plug_in.__module__ = "attsvm.norms.cubic"
    good = {"stems": {"cubic", "norm"}, "other": {"norm"}, "registry": {"cubic": plug_in}}
    assert faults("norms", **good) == []
    assert "not in the registry" in faults("norms", **good | {"registry": {}})[0]
    assert "comes from no plug-in" in faults("norms", **good | {"registry": {"c": faults}})[0]


def test_a_record_comes_from_its_parts():
    record = make_dataclass("Record", ["run"])(faults)
    assert __name__ in homes(record)
