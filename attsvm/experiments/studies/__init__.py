"""The studies, by id: paper letter and name. `B.rank` is studies/b/rank.py.

A module of a paper's folder that defines STUDY, or STUDIES with several, is found by itself.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from attsvm._utils.objects import load_module
from attsvm.errors import Unsupported
from attsvm.experiments.study import BadStudy, Study, check_study

PAPERS = ("a", "b", "c", "d", "e", "beyond")


@cache
def studies() -> Mapping[str, Study]:
    """Every study of the package, by id."""
    found: dict[str, Study] = {}
    for paper in PAPERS:
        package = import_module(f"{__name__}.{paper}")
        for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
            found |= {s.id: s for s in _defined(import_module(f"{package.__name__}.{module.name}"))}
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
