"""A folder of plug-ins and its registry list the same things: what is listed is tested."""

import importlib
import inspect
from dataclasses import fields, is_dataclass

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
}


# Beside the plug-ins: base classes, the functions users call, and what several plug-ins share.
OTHERS = {
    "norms": "norm rational",
    "solvers": (
        "solver solve solve_many solve_sets "
        "unit_rows working_set linear_program lp_interior_point power cone"
    ),
    "datasets": "labelled",
    "training.optimizers": "optimizer steps",
    "experiments.statements": "statement facts",
    "inspection.families": "family",
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
    entries = [entry for name in names.split() for entry in getattr(package, name).values()]
    listed = set().union(*map(homes, entries))
    stems = {path.stem for path in (PACKAGE / folder.replace(".", "/")).glob("*.py")}
    plugins = stems - {"__init__", *OTHERS[folder].split()}
    missing = {stem for stem in plugins if f"attsvm.{folder}.{stem}" not in listed}
    assert not missing, f"not in {names}: {missing}; add an entry, or put parts in a subfolder"


def test_studies_are_in_the_folder_of_their_paper():
    """`B.rank` is in studies/b; a module of the folders defines STUDY or STUDIES."""
    from attsvm.experiments.studies import PAPERS, studies

    found = {}
    for paper in PAPERS:
        for file in (PACKAGE / "experiments/studies" / paper).glob("[a-z]*.py"):
            module = importlib.import_module(f"attsvm.experiments.studies.{paper}.{file.stem}")
            for study in getattr(module, "STUDIES", None) or [module.STUDY]:
                assert study.id.partition(".")[0].lower() == paper
                found[study.id] = study
    assert found == studies()


def test_a_function_and_its_name_agree():
    from attsvm.experiments.families import FAMILIES
    from attsvm.experiments.measures import MEASURES

    for registry in (FAMILIES, MEASURES):
        for name, function in registry.items():
            assert function.__name__ == name.replace("-", "_")
