"""What ruff does not check of the library's source: docstrings of modules, and no probing."""

import ast

from tests.conventions.tree import modules


def test_modules_say_what_they_are():
    silent = [name for name, tree in modules().items() if not ast.get_docstring(tree)]
    assert not silent, f"no module docstring: {silent}"


def test_nothing_is_probed_by_hasattr():
    probing = {
        f"{name}, line {node.lineno}"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "hasattr"
    }
    assert not probing, f"declare the capability instead: {sorted(probing)}"
