"""What the tests of reproductions share."""

import pytest

from attsvm.experiments.studies import CLAIMS
from tests.experiments.reproduce.made_claims import NAME, OTHER, made


@pytest.fixture
def runs(monkeypatch) -> list[str]:
    """The ids in the order in which the two made-up claims were run."""
    seen: list[str] = []
    for name in (NAME, OTHER):
        monkeypatch.setitem(CLAIMS, name, made(name, runs=seen))
    return seen
