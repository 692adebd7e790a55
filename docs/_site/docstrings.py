"""The docstrings of the house as reStructuredText: formulas, arguments, and letters that mean it.

An indented block is a formula and stays as it is typed. A sentence `name: what it is` whose name is
an argument (or a field of the class) becomes an item of a list. Stars, bars and underscores are
meant as they stand.
"""

import inspect
import re
from contextlib import suppress

LEADS = re.compile(r"^(Theory|Differs|Raises): ")
SPAN = re.compile(r"(`[^`]*`)")
LOUD = re.compile(r"([*|\\]|(?<=\w)_(?!\w))")


def reshape(app, what, name, obj, options, lines):
    """Rewrite the lines of a docstring in place (the event autodoc-process-docstring)."""
    lines[:] = written(lines, arguments(obj))


def foreign(app, what, name, obj, skip, options):
    """True for a member that another package put into a class; None leaves it to Sphinx."""
    home = getattr(obj, "__module__", None)
    return True if home and not home.startswith("attsvm") else None


def arguments(thing):
    """The names of a function's parameters, or of a class's parameters and fields."""
    names = set(getattr(thing, "__annotations__", {}))
    with suppress(TypeError, ValueError):
        names |= set(inspect.signature(thing).parameters)
    return names - {"self", "return"}


def written(lines, names=()):
    """The lines as reStructuredText.

    >>> written(["So far.", "", "    a*b", "", "a_: one. b: two."], {"a_", "b"})
    ['So far.', '', '::', '', '    a*b', '', '* **a\\\\_**: one.', '* **b**: two.', '']
    """
    found = []
    for block in blocks(lines):
        if block[0].startswith((">>>", ":", "..")):
            found += block
        elif block[0].startswith((" ", "\t")):
            found += ["::", "", *block]
        else:
            found += listed(block, names)
        found.append("")
    return found


def blocks(lines):
    """The paragraphs, each a list of lines; an indented one keeps the empty lines inside it."""
    found, block = [], []
    for line in [*lines, ""]:
        if line.strip():
            if block and line.startswith(">>>") and not block[0].startswith(">>>"):
                found.append(block)
                block = []
            block.append(line)
        elif block:
            deep = block[0].startswith(" ")
            if deep and found and found[-1][0].startswith(" "):
                found[-1] += ["", *block]
            else:
                found.append(block)
            block = []
    return found


def listed(block, names):
    """A paragraph, with a list of the arguments it explains."""
    text = " ".join(line.strip() for line in block)
    text = LEADS.sub(lambda lead: f"**{lead[1]}.** ", quiet(text))
    if not names:
        return [text]
    known = "|".join(sorted((re.escape(quiet(name)) for name in names), key=len, reverse=True))
    item = rf"(?:{known})(?: \([^()]*\))?"
    head = re.compile(rf"(?:(?<=^)|(?<=[.;] ))({item}(?:(?:, | and ){item})*): ")
    parts = head.split(text)
    found = [parts[0].strip()] if parts[0].strip() else []
    if len(parts) > 1 and found:
        found.append("")
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    return found + [f"* **{name}**: {said.strip().rstrip(';')}" for name, said in pairs]


def quiet(text):
    """The text with its stars, bars and closing underscores meant as they stand."""
    parts = SPAN.split(text)
    return "".join(p if p.startswith("`") else LOUD.sub(r"\\\1", p) for p in parts)
