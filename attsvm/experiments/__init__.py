"""Studies: statements measured on instances, judged from a table of rows, drawn and reported.

A `Study` says what is drawn, measured and checked; `run_studies` runs it on any executor.
`docs/adding-a-study.md` shows one from start to end.
"""

from attsvm.experiments.group import Drawn, Group
from attsvm.experiments.runner import run_studies
from attsvm.experiments.spec import read_sweep
from attsvm.experiments.study import (
    Note,
    Premises,
    Study,
    at_least,
    at_most,
    check_study,
    equals,
    info,
)

__all__ = [
    "Drawn", "Group", "Note", "Premises", "Study", "at_least", "at_most", "check_study", "equals",
    "info", "read_sweep", "run_studies",
]  # fmt: skip
