"""Pages made of data: docs/claims.md, the README's table of claims and docs/shares.md."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from attsvm.errors import BadTokens
from attsvm.experiments.reproduce.page.tables import (
    BEGIN,
    END,
    claims_page,
    table_ids,
    verdict_table,
    with_table,
)
from attsvm.experiments.runner import run_studies
from attsvm.experiments.studies import CLAIMS
from attsvm.experiments.studies.b.global_share_against_dimension import STUDY
from attsvm.experiments.studies.claim import law_broken
from attsvm.experiments.studies.shared.published_shares import FIGURE_5, FIGURE_6
from tests.experiments.reproduce import shares
from tests.experiments.reproduce.listed import PAGE, README


def test_the_page_of_claims_is_current():
    assert PAGE.read_text("utf-8") == claims_page(CLAIMS.values()), "run `make docs`"


def test_the_readme_lists_every_claim():
    text = README.read_text("utf-8")
    assert (BEGIN in text) == (END in text)
    if BEGIN in text:
        assert table_ids(text) == list(CLAIMS)


def test_a_table_is_put_between_its_marks():
    records = [
        {"id": "Z.one", "title": "a | b <i>", "kind": "figure", "verdict": "holds"},
        {"id": "Z.two", "title": "c", "kind": "theorem", "verdict": "fails", "differs": "so"},
    ]
    page = with_table(f"before\n{BEGIN}\nbefore the run\n{END}\nafter\n", verdict_table(records))
    assert table_ids(page) == ["Z.one", "Z.two"]
    counts = "1 from papers and 0 of our own questions"
    assert f"2 claims: 1 holds, 1 fails (of those that fail, {counts})." in page
    assert r"a \| b &lt;i>" in page and "before the run" not in page
    assert page.startswith("before\n") and page.endswith(f"{END}\nafter\n")
    assert with_table(page, verdict_table(records)) == page
    with pytest.raises(BadTokens, match="has no lines"):
        with_table("no marks", "table\n")


def test_a_recalled_theorem_is_a_statement_under_test():
    record = {"id": "Z.x", "title": "t", "kind": "theorem", "trust": "as recalled"}
    row = verdict_table([{**record, "verdict": "undecided", "differs": "so"}]).splitlines()[-1]
    assert row == "| `Z.x` | t | statement |  |  | as recalled | undecided |"
    said = {"trust": "read", "verdict": "fails", "numbered": "v1, Theorem 4", "size": "half"}
    row = verdict_table([{**record, **said}]).splitlines()[-1]
    assert row == "| `Z.x` | t | theorem | v1, Theorem 4 | half | read | fails |"


def test_questions_differ_from_nothing_published():
    asked = [claim for claim in CLAIMS.values() if claim.kind == "question"]
    assert len(asked) == 19 and not any(claim.differs for claim in asked)
    # Three were read: a printed theorem whose proof leaves an inequality open, a conjecture, and a
    # remark without a proof.
    read = {claim.id for claim in asked if claim.trust not in ("measured", "derived")}
    assert read == {
        "B.initial-gradient-condition",
        "B.conjecture",
        "B.all-tight-against-dimension",
    }
    wrong = replace(asked[0], differs="from what?")
    assert "a question differs from nothing" in law_broken(wrong)


def test_statements_cannot_break_their_row():
    claim = SimpleNamespace(
        id="Z.x", paper="Z", kind="figure", trust="code", real=False, statement="a|b\nc",
        differs="", numbered="Figure 6", size="half",
    )  # fmt: skip
    assert "| `Z.x` | figure | Figure 6 | half | code | a\\|b c |\n" in claims_page([claim])


def test_the_page_is_that_of_the_counts():
    counts = json.loads(shares.COUNTS.read_text("utf-8"))
    assert {title.split(",")[0] for title in counts} == {"5 as published", "5 certified", "6"}
    said = "run `python -m tests.experiments.reproduce.shares`"
    assert shares.PAGE.read_text("utf-8") == shares.page(counts), said


def test_every_published_bar_stands_on_the_page():
    counts = json.loads(shares.COUNTS.read_text("utf-8"))
    for title, rows in counts.items():
        figure = FIGURE_6 if title.startswith("6") else FIGURE_5
        published = sorted(share for row in figure.values() for share in row)
        assert sorted(share for _, _, _, share in rows) == published


def test_counts_are_those_of_the_table(tmp_path):
    study = replace(STUDY, grid={**STUDY.grid, "size": ["5x5"], "d": [5]}, seeds=4,
                    checks=None)  # fmt: skip
    run_studies([study], tmp_path)
    (rows,) = shares.counted(tmp_path).values()
    assert [row[0] for row in rows] == ["W n=5 T=5 d=5", "KQ n=5 T=5 d=5"]
    assert all(0 <= count <= trials == 4 for _, count, trials, _ in rows)
