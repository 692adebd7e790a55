"""What the library's source never does, read from its syntax trees."""

import ast

import pytest

from tests.conventions.tree import modules


def faults(module: str, tree: ast.Module) -> list[str]:
    """What one module does against the rules of the house, one sentence a fault."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.ExceptHandler(type=None):
                found.append((node, "bare except hides every fault: name the exception"))
            case ast.Assert():
                found.append((node, "assert vanishes under -O: raise one of attsvm.errors"))
            case ast.Call(func=ast.Name(id="hasattr")):
                found.append((node, "hasattr probes: declare the capability instead"))
            case ast.ImportFrom(module="numba", names=names) if module != "attsvm._utils.compiled":
                if {"njit", "jit"} & {alias.name for alias in names}:
                    found.append(
                        (node, "import njit from attsvm._utils.compiled: it works read-only")
                    )
            case ast.Attribute(value=ast.Name(id="numba"), attr="njit" | "jit"):
                if module != "attsvm._utils.compiled":
                    found.append((node, "use attsvm._utils.compiled.njit: it works read-only"))
            case ast.keyword(arg="fastmath", value=ast.Constant(value=True)):
                found.append((node, "fastmath reorders sums and breaks rounding bounds"))
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                found.append((node, "a star import hides where names come from"))
    return [f"{module}, line {node.lineno}: {fault}" for node, fault in found]


def test_library_keeps_the_rules():
    found = [line for name, tree in modules().items() for line in faults(name, tree)]
    assert not found, "\n".join(found)


def test_modules_say_what_they_are():
    silent = [name for name, tree in modules().items() if not ast.get_docstring(tree)]
    assert not silent, f"no module docstring: {silent}"


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    f()\nexcept:\n    pass",
        "def f(x):\n    assert x > 0",
        "hasattr(x, 'y')",
        "from numba import njit",
        "import numba\n@numba.njit\ndef f(): pass",
        "@njit(fastmath=True)\ndef f(): pass",
        "from attsvm.norms import *",
    ],
)
def test_a_broken_rule_is_seen(source):
    assert len(faults("attsvm.sample", ast.parse(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    f()\nexcept ValueError:\n    pass",
        "from numba import prange",
        "from attsvm._utils.compiled import njit\n@njit()\ndef f(): pass",
    ],
)
def test_a_kept_rule_is_let_pass(source):
    assert faults("attsvm.sample", ast.parse(source)) == []


# Doors that users call by keyword, and the large Frobenius solver's kernels.
MANY = {
    "attsvm.cli.hunt.hunt_command",
    "attsvm.cli.inspect.inspect_command",
    "attsvm.cli.fit.fit_command",
    "attsvm.cli.reproduce.reproduce_command",
    "attsvm.cli.sentences.sentences_command",
    "attsvm.cli.solve.solve_command",
    "attsvm.cli.sweep.sweep_command",
    "attsvm.cli.train.train_command",
    "attsvm.datasets.contextual.contextual_arrays",
    "attsvm.api.outcome",
    "attsvm.api.proof_of_convergence",
    "attsvm.api.train",
    "attsvm.estimator.__init__",
    "attsvm.next_token.text.read_sentences",
    "attsvm.next_token.training.train.train",
    "attsvm.experiments.reproduce.runs.reproduce_claims",
    "attsvm.solvers.frobenius.coordinate._epoch",
    "attsvm.solvers.frobenius.large.solve_rows",
    "attsvm.solvers.frobenius.semismooth._line_search",
    "attsvm.solvers.frobenius.semismooth.newton",
    "attsvm.theory.regularization_path.paths.regpath",
    "attsvm.torch.mirror.__init__",
    "attsvm.training.train.train",
}


def crowded(name: str, tree: ast.Module, most: int = 8) -> set[str]:
    """The functions of a module with more parameters than `most`."""
    return {
        f"{name}.{node.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs) > most
    }


def test_functions_take_few_parameters():
    found = set().union(*(crowded(name, tree) for name, tree in modules().items()))
    assert not found - MANY, f"gather these parameters in a NamedTuple: {sorted(found - MANY)}"
    assert not MANY - found, f"no longer crowded: take out of MANY {sorted(MANY - found)}"


def test_a_crowded_function_is_seen():
    tree = ast.parse("def f(a, b, c, d, e, f, g, h, *, i): ...")
    assert crowded("m", tree) == {"m.f"}
    assert not crowded("m", tree, most=9)
