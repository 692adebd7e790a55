"""The reference: one page per group of public names, made of the lists in the package itself."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import attsvm
from _site.docstrings import quiet

# The order of the gallery; what is not named here comes last.
GALLERY = [
    "one_selection_every_norm.py",
    "certify_your_own_direction.py",
    "many_problems.py",
    "low_rank.py",
    "optimizers_and_norms.py",
    "mirror_descent.py",
    "saturated_is_not_converged.py",
    "proof_beside_run.py",
    "basin.py",
    "local_optima.py",
    "growing_ball.py",
    "hunt_a_statement.py",
    "next_token.py",
    "two_stages.py",
    "torch_proved.py",
    "torch_blocked.py",
]

# Pages beside those of attsvm.__all__: module -> title.
ROOMS = {
    "attsvm.theory.measures": "Measures",
    "attsvm.theory.rates": "Rates",
    "attsvm.next_token": "Language",
    "attsvm.estimator": "The estimator",
    "attsvm.torch": "Torch",
    "attsvm.inspection": "Trained models",
}
# The module by which users know it.
KNOWN_AS = {"attsvm.theory.measures": "attsvm.measures"}


def groups():
    """Title -> names of attsvm.__all__, by the comments that stand in that list."""
    text = Path(attsvm.__file__).read_text("utf-8")
    inside = re.search(r"^__all__ = \[\n(.*?)^\]", text, re.S | re.M)[1]
    found, title = {}, ""
    for line in inside.splitlines():
        if line.strip().startswith("#"):
            title = line.strip(" #.")
            found[title] = []
        else:
            found[title].append(ast.literal_eval(line.strip(" ,")))
    return found


def public(module):
    """The public names of a module: its list, or what it defines itself."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(thing) or inspect.isroutine(thing))
        and thing.__module__ == module.__name__
    ]


def entry(module, name, prefix=None):
    """The lines that document one public name."""
    thing = getattr(module, name)
    whole = f"{prefix or module.__name__}.{name}"
    if inspect.ismodule(thing):
        return []
    if not (inspect.isclass(thing) or callable(thing)):
        return [f".. py:data:: {whole}", f"   :value: {thing!r}", "", "   The version.", ""]
    kind = "class" if inspect.isclass(thing) else "function"
    lines = [f".. auto{kind}:: {whole}"]
    if kind == "class" and issubclass(thing, Exception):
        lines.append("   :no-members:")
    return [*lines, ""]


def page(title, lines):
    """The text of a page under its title."""
    return "\n".join([title, "=" * len(title), "", *lines, ""])


def write(folder):
    """Write the pages of the reference into this folder, and their index; unchanged ones stay."""
    folder.mkdir(exist_ok=True)
    order = []
    for title, names in groups().items():
        lines = [line for name in names for line in entry(attsvm, name)]
        slug = re.sub(r"\W+", "-", title.lower()).strip("-")
        order.append(slug)
        save(folder / f"{slug}.rst", page(title, lines))
    for name, title in ROOMS.items():
        slug = name.rpartition(".")[2]
        order.append(slug)
        save(folder / f"{slug}.rst", page(title, room(name)))
    tree = [".. toctree::", "   :maxdepth: 1", "", *(f"   {slug}" for slug in order), "   commands"]
    said = [
        "Every public name, by what it is about. The examples are tested; numbers are compared to",
        "the digits that are shown.",
        "",
    ]
    save(folder / "index.rst", page("Reference", [*said, *tree]))


def room(name):
    """The lines of a module's page: its own words, then its public names."""
    try:
        module = importlib.import_module(name)
    except (ImportError, attsvm.AttsvmError) as error:
        return [f"This page is made where the extra is installed: {quiet(str(error))}."]
    known = KNOWN_AS.get(name, name)
    own = [n for n in public(module) if not at_the_door(module, n)]
    others = [f":py:obj:`attsvm.{n}`" for n in public(module) if at_the_door(module, n)]
    lines = [f".. automodule:: {known}", "   :no-members:", "   :no-index:", ""]
    lines += [".. py:currentmodule:: None", ""]
    lines += [f"Also here: {', '.join(others)}.", ""] if others else []
    return lines + [line for n in own for line in entry(module, n, known)]


def at_the_door(module, name):
    """Whether a name of a module is that of attsvm itself, which has its entry elsewhere."""
    return name in attsvm.__all__ and getattr(attsvm, name) is getattr(module, name)


def save(path, text):
    """Write a file unless it has this text: an unchanged page is not built again."""
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")
