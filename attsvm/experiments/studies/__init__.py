"""The studies, by id: paper letter and name. `B.rank` is in studies/b.

A module of a paper's folder that defines STUDY, or STUDIES with several, is found by itself.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from attsvm._utils.objects import load_module
from attsvm._utils.version import install
from attsvm.datasets.real import fashion_images, review_lines
from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.study import BadStudy, Study, check_study

PAPERS = ("a", "b", "c", "d", "e", "beyond")
# What a study may need: a module, or a data set.
MODULES = {"torch": "torch", "sklearn": "sklearn", "valence": "vaderSentiment"}
DATA: dict[str, Callable[[], object]] = {
    "reviews": lambda: review_lines(1),
    "fashion": lambda: fashion_images((1, 1, 1)),
}


@cache
def studies() -> Mapping[str, Study]:
    """Every study of the package, by id."""
    found: dict[str, Study] = {}
    for paper in PAPERS:
        package = import_module(f"{__name__}.{paper}")
        names = [module.name for module in pkgutil.iter_modules(package.__path__)]
        given = [s for name in names for s in _defined(import_module(f"{package.__name__}.{name}"))]
        found |= {study.id: study for study in sorted(given, key=lambda study: study.id)}
    return found


def _defined(module: ModuleType, *names: str) -> list[Any]:
    """What a module defines as STUDY or STUDIES, or under these names."""
    given = [getattr(module, name, ()) for name in names or ("STUDY", "STUDIES")]
    return [one for some in given for one in (some if isinstance(some, tuple | list) else [some])]


def studies_in(source: str | Path) -> dict[str, Study]:
    """The studies that a Python file defines as STUDY or STUDIES, or FILE.py:NAME names.

    Raises Unsupported when the file does not import, and BadStudy when it holds no study or one
    that breaks the contract.
    """
    file, _, name = str(source).rpartition(":") if ".py:" in str(source) else (str(source), "", "")
    module = load_module(Path(file))
    given = _defined(module, *filter(None, [name]))
    if not given:
        raise BadStudy(f"{file} holds no study: it must define {name or 'STUDY or STUDIES'}")
    found: dict[str, Study] = {}
    for study in given:
        if not isinstance(study, Study):
            raise BadStudy(
                f"{file} has in {name or 'STUDY or STUDIES'} what is no Study: {study!r}"
            )
        check_study(study)
        if study.id in studies() or found.get(study.id, study) is not study:
            raise BadStudy(f"{file}: the id {study.id} is taken")
        found[study.id] = study
    return found


def study_of(name: str, known: Mapping[str, Study] | None = None) -> Study:
    """The study of this id among the known; an unknown one is answered with the nearest."""
    known = studies() if known is None else known
    if name in known:
        return known[name]
    near = get_close_matches(name, known, n=3, cutoff=0.3)
    hint = f"nearest are {', '.join(near)}" if near else "`attsvm list` names them all"
    raise Unsupported(f"unknown study {name!r}: {hint}")


def chosen_studies(
    names: Iterable[str], known: Mapping[str, Study] | None = None, *, real: bool | None = False
) -> list[Study]:
    """The known studies of these ids and paper letters, in their order; all without names.

    real: whether letters, and no names, mean the studies on real data or the others; None: both.
    """
    known = studies() if known is None else known
    meant = [s for s in known.values() if real is None or s.real == real]
    wanted: set[str] = set()
    papers = {study.paper for study in known.values()}
    names = list(names)
    for name in names:
        if name in papers:
            wanted |= {study.id for study in meant if study.paper == name}
        else:
            wanted.add(study_of(name, known).id)
    return meant if not names else [s for s in known.values() if s.id in wanted]


def missing(needs: tuple[str, ...]) -> str:
    """What of these is missing, in words, with the line that installs it; empty when all is here.

    >>> missing(())
    ''
    """
    said = []
    for need in needs:
        try:
            if need in DATA:
                DATA[need]()
            elif find_spec(MODULES[need]) is None:
                said.append(f"{MODULES[need]} is not here: {install('real')}")
        except BadTokens as error:
            said.append(str(error))
    return "; ".join(said)
