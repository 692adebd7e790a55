"""What the library's source never does, read from its syntax trees."""

import ast

import pytest

from tests.conventions.tree import modules


def faults(module: str, tree: ast.Module) -> list[str]:
    """What one module does against the project conventions, one sentence a fault."""
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
