"""Arrows between the package's modules go one way, and importing it stays light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.conventions.tree import modules

# From the ground up. A unit (a module or folder of the package) may import units of its own layer,
# without a ring, and units of every layer above it in this table.
LAYERS = (
    ("errors", "references", "_utils"),
    ("norms",),
    ("problem",),
    ("certificate",),
    ("solvers", "training", "datasets"),
    ("next_token",),
    ("theory",),
    ("next_token.training",),
    ("api",),
    ("plotting", "estimator"),
    ("inspection",),
    ("torch",),
    ("experiments",),
    ("cli",),
    ("__init__", "__main__"),
)
LEVEL = {unit: level for level, units in enumerate(LAYERS) for unit in units}

# The theorem that joins these two is tested, not coded: neither imports the other.
APART = (("solvers", "training"),)

# Not needed to solve a problem from Python, so not loaded by `import attsvm`.
HEAVY = ("torch", "matplotlib", "cvxpy", "sklearn", "typer", "rich", "distributed", "submitit")


def unit_of(module: str) -> str:
    """The top-level module or folder that a dotted module name belongs to."""
    parts = module.split(".")
    if ".".join(parts[1:3]) in LEVEL:
        return ".".join(parts[1:3])
    return parts[1] if len(parts) > 1 else "__init__"


def running(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node that can run: what stands under `if TYPE_CHECKING` is for readers of types."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        yield node
        yield from running(node)


def imported(module: str, tree: ast.Module, known: set[str]) -> set[str]:
    """The modules of the package that one module imports when it runs, inside functions too."""
    found = set()
    is_folder = any(name.startswith(f"{module}.") for name in known)
    package = module if is_folder else module.rpartition(".")[0]
    for node in running(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                stem = parents[: len(parents) - node.level + 1]
                base = ".".join([*stem, base] if base else stem)
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                found.add(whole if whole in known else base)
    return {name for name in found if name == "attsvm" or name.startswith("attsvm.")}


def arrows(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Unit -> the other units it imports."""
    found: dict[str, set[str]] = {unit_of(name): set() for name in trees}
    for name, tree in trees.items():
        targets = {unit_of(target) for target in imported(name, tree, set(trees))}
        found[unit_of(name)] |= targets - {unit_of(name)}
    return found


def faults(graph: dict[str, set[str]]) -> list[str]:
    """What breaks the law, one sentence a fault."""
    found = []
    for unit in sorted(set(graph) - set(LEVEL)):
        found.append(f"attsvm/{unit} is in no layer: add it to LAYERS in {__name__}")
    for unit in sorted(set(LEVEL) - set(graph)):
        found.append(f"LAYERS names {unit!r}, which is not in attsvm/: remove it")
    for unit, targets in sorted(graph.items()):
        for target in sorted(targets):
            if any({unit, target} == set(pair) for pair in APART):
                found.append(f"{unit} imports {target}: these two never import each other")
            elif unit in LEVEL and target in LEVEL and LEVEL[target] > LEVEL[unit]:
                found.append(
                    f"{unit} (layer {LEVEL[unit]}) imports {target} (layer {LEVEL[target]}): "
                    "arrows go from low layers to high ones only"
                )
    return found + ring(graph)


def ring(graph: dict[str, set[str]]) -> list[str]:
    """A sentence on a ring of imports, if there is one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [f"import ring: {' -> '.join(error.args[1])}"]
    return []


def test_arrows_go_one_way():
    found = faults(arrows(modules()))
    assert not found, "\n".join(found)


def test_a_forbidden_arrow_is_seen():
    graph = {unit: set() for unit in LEVEL}
    assert faults(graph) == []
    graph["problem"].add("solvers")
    graph["training"].add("datasets")
    graph["datasets"].add("training")
    found = faults(graph)
    assert len(found) == 2 and "arrows go" in found[0]
    assert found[1].startswith("import ring: ")


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("import attsvm.norms.norm", "attsvm.norms.norm"),
        ("from attsvm import norms", "attsvm.norms"),
        ("from attsvm.norms import NORMS", "attsvm.norms"),
        ("from . import norm", "attsvm.norms.norm"),
        ("from .norm import Norm", "attsvm.norms.norm"),
        ("from ..errors import BadTokens", "attsvm.errors"),
        ("def f():\n    from attsvm import solve", "attsvm"),
    ],
)
def test_every_form_of_import_is_read(line, target):
    known = {"attsvm", "attsvm.errors", "attsvm.norms", "attsvm.norms.norm"}
    assert imported("attsvm.norms.max", ast.parse(line), known) == {target}


def test_import_is_light():
    probe = f"import sys, attsvm; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]", f"import attsvm also loads {done.stdout.strip()}"
