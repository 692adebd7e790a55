"""A function never has the name of the module or folder it lives in: one name, one thing."""

import ast

from tests.conventions.tree import modules

# Still to be renamed: module, function.
EXEMPT = {
    ("attsvm.training.models.gradient.terms", "terms"),
    ("attsvm.training.optimizers.graded.entries", "entries"),
    ("attsvm.training.optimizers.graded.span", "span"),
}


def functions(tree: ast.Module) -> set[str]:
    """The functions of a module, those inside `if` and `try` included; not methods."""
    found: set[str] = set()
    todo: list[ast.AST] = [tree]
    while todo:
        for node in ast.iter_child_nodes(todo.pop()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.If | ast.Try | ast.With):
                todo.append(node)
    return found


def namesakes(trees: dict[str, ast.Module]) -> set[tuple[str, str]]:
    """(module, function) of every function named like a part of its module's dotted name."""
    return {
        (module, name)
        for module, tree in trees.items()
        for name in functions(tree) & set(module.split("."))
    }


def hidden(trees: dict[str, ast.Module]) -> set[tuple[str, str]]:
    """(folder, name) of every name that a folder's door binds over a module of the folder."""
    found = set()
    for folder, tree in trees.items():
        for node in tree.body:
            if not isinstance(node, ast.ImportFrom):
                continue
            for alias in node.names:
                name = alias.asname or alias.name
                module = f"{folder}.{name}"
                if module in trees and f"{node.module}.{alias.name}" != module:
                    found.add((folder, name))
    return found


def test_no_function_is_named_after_its_module():
    found = namesakes(modules())
    assert not found - EXEMPT, f"rename the function or the module: {sorted(found - EXEMPT)}"
    assert not EXEMPT - found, f"no longer named so: take out of EXEMPT {sorted(EXEMPT - found)}"


def test_no_door_hides_a_module():
    found = hidden(modules())
    assert not found, f"the folder's __init__ binds these names over modules: {sorted(found)}"


def test_a_namesake_is_seen():
    trees = {
        "attsvm.training.optimizers.step": ast.parse(
            "if x:\n    def step(): pass\ndef rules(): pass"
        )
    }
    assert {name for _, name in namesakes(trees)} == {"step", "rules"}
    kept = ast.parse("class Step:\n    def step(self): pass\ndef outer():\n    def step(): pass")
    assert not namesakes({"attsvm.training.optimizers.step": kept})


def test_a_hidden_module_is_seen():
    trees = {
        "attsvm.training.optimizers": ast.parse(
            "from attsvm.training.optimizers.step import step\nfrom attsvm.training.optimizers
            import gd"
        ),
        "attsvm.training.optimizers.step": ast.parse(""),
        "attsvm.training.optimizers.gd": ast.parse(""),
    }
    assert hidden(trees) == {("attsvm.training.optimizers", "step")}
