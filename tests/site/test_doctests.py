"""Every public name has an example of its own in its docstring, and pytest runs it."""

import doctest
import inspect
import re
from typing import get_overloads

from tests.site.reference import public


def without_example(names: dict[str, object]) -> list[str]:
    """The classes and functions among these without an example that is compared.

    A class needs none where a function that returns it has one.
    """
    parser = doctest.DocTestParser()
    missing, returned = {}, set()
    for name, thing in names.items():
        if not callable(thing):
            continue  # a module, or the version
        own = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
        if not any(example.want for example in parser.get_examples(own or "")):
            missing[name] = thing
        elif not inspect.isclass(thing):
            for each in (thing, *get_overloads(thing)):
                annotation = str(inspect.signature(each).return_annotation)
                returned.update(re.findall(r"\w+", annotation))
    return [name for name, thing in missing.items() if thing.__name__ not in returned]


def test_every_public_name_has_an_example():
    names = public()
    assert {"attsvm.solve", "attsvm.measures.rank", "attsvm.next_token.orders"} <= set(names)
    found = without_example(names)
    assert not found, f"write an example into the docstring of {found}"
