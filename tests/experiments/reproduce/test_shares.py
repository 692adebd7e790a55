"""The page of shares is that of the counts on file, and the counts are those of a result."""

from __future__ import annotations

import json

from attsvm.experiments.studies import CLAIMS
from attsvm.experiments.studies.shared.published_shares import FIGURE_5, FIGURE_6
from tests.experiments.reproduce.shares import COUNTS, PAGE, of_result, page


def test_the_page_is_that_of_the_counts():
    counts = json.loads(COUNTS.read_text("utf-8"))
    assert {title.split(",")[0] for title in counts} == {"5 as published", "5 certified", "6"}
    said = "run `python -m tests.experiments.reproduce.shares`"
    assert PAGE.read_text("utf-8") == page(counts), said


def test_every_published_bar_stands_on_the_page():
    counts = json.loads(COUNTS.read_text("utf-8"))
    for title, rows in counts.items():
        figure = FIGURE_6 if title.startswith("6") else FIGURE_5
        shares = [share for row in figure.values() for share in row]
        assert sorted(share for _, _, _, share in rows) == sorted(shares)


def test_counts_are_those_of_the_check():
    claim = CLAIMS["B.global-share-against-dimension"]
    config = {**claim.quick, "sizes": [[5, 5]], "dimensions": [5], "seeds": 4, "ridge": []}
    (rows,) = of_result(claim.id, config, claim.run(config)).values()
    assert [row[0] for row in rows] == ["W n=5 T=5 d=5", "KQ n=5 T=5 d=5"]
    assert all(0 <= count <= trials == 4 for _, count, trials, _ in rows)
