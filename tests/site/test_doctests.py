"""Every public name has an example in its docstring, and pytest runs it.

That of a result is in the function that returns it.
"""

import doctest
import inspect

from attsvm._utils.result import Result
from attsvm.theory.rates import RateComparison, RateFit
from tests.site.reference import public

RETURNED = (Result, RateComparison, RateFit)


def without_example(names: dict[str, object]) -> list[str]:
    """The classes and functions among these whose own docstring has no example that is compared."""
    parser = doctest.DocTestParser()
    found = []
    for name, thing in names.items():
        if not callable(thing) or (inspect.isclass(thing) and issubclass(thing, RETURNED)):
            continue  # a module, the version, or a result
        own = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
        if not any(example.want for example in parser.get_examples(own or "")):
            found.append(name)
    return found


def test_every_public_name_has_an_example():
    names = public()
    assert {"attsvm.solve", "attsvm.measures.rank", "attsvm.next_token.orders"} <= set(names)
    found = without_example(names)
    assert not found, f"write an example into the docstring of {found}"
