"""Every public name has an example of its own in its docstring, and pytest runs it."""

import doctest
import inspect

from tests.site.reference import public


def without_example(names: dict[str, object]) -> list[str]:
    """The classes and functions among these whose own docstring has no example that is compared."""
    parser = doctest.DocTestParser()
    found = []
    for name, thing in names.items():
        if not (inspect.isclass(thing) or callable(thing)):
            continue  # a module, or the version
        own = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
        if not any(example.want for example in parser.get_examples(own or "")):
            found.append(name)
    return found


def test_every_public_name_has_an_example():
    names = public()
    assert {"attsvm.solve", "attsvm.measures.rank", "attsvm.next_token.orders"} <= set(names)
    found = without_example(names)
    assert not found, f"write an example into the docstring of {found}"
