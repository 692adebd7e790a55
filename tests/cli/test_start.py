"""The command line starts fast: a command loads what it computes with when it is called."""

import ast

import pytest

from tests.conventions.tree import modules

# What every command may load at once: words, options, files, and the names of the examples.
LIGHT = (
    "attsvm.cli.options",
    "attsvm.cli.output",
    "attsvm.cli.sentence_options",
    "attsvm.datasets",
    "attsvm.errors",
    "attsvm._utils.arrays",
    "attsvm._utils.expected",
    "attsvm._utils.files",
    "attsvm._utils.memory",
    "attsvm._utils.progress",
    "attsvm._utils.version",
)
# What commands load when they are called.
COMPUTING = ("attsvm.cli.problem_file", "attsvm.cli.training")
HEAVY = ("scipy", "numba", "matplotlib", "rich")
LOADED = [
    name
    for name in modules()
    if name in LIGHT or (name.startswith("attsvm.cli.") and name.count(".") == 2)
    if name not in COMPUTING
]


def at_once(tree: ast.Module) -> set[str]:
    """The modules that a module imports when it is loaded."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("name", LOADED)
def test_a_command_loads_little_at_once(name):
    heavy = {
        module
        for module in at_once(modules()[name])
        if module.split(".")[0] in HEAVY
        or (module.startswith("attsvm.") and not module.startswith((*LIGHT, "attsvm.datasets.")))
    }
    assert not heavy, f"import these inside the function that needs them: {sorted(heavy)}"


def test_all_commands_are_looked_at():
    assert {"attsvm.cli.solve", "attsvm.cli.train", "attsvm.cli.options"} <= set(LOADED)
