"""The bench: every contestant answers the smallest size of its works, the judge is not fooled,
and records are whole and never rewritten. Nothing here looks at a time."""

import importlib.util
import json
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from attsvm.bench import CONTESTANTS, WORKS, instances, race, run, table
from attsvm.bench.judge import grade
from attsvm.bench.machine import THREADS
from attsvm.bench.measure import measure
from attsvm.bench.record import record
from attsvm.bench.standings import HEADS, row
from attsvm.bench.task import Answer, Entry, Task
from attsvm.errors import BadTokens, Unsupported
from attsvm.norms import norm_of
from tests.tolerances import GAP, ORACLE, ROUNDING

PAIRS = [(name, who) for name, work in WORKS.items() for who in work.entries]
SEED = 1


def tiny(name, **changes):
    """A work in its warm-up size, for one seed of each contestant."""
    work = WORKS[name]
    entries = {who: replace(e, seeds=1, first=None) for who, e in work.entries.items()}
    return replace(work, size=work.tiny, stack=min(work.stack, 3), entries=entries, **changes)


@pytest.mark.parametrize(("name", "who"), PAIRS)
def test_every_contestant_answers_the_smallest_size(name, who):
    work = WORKS[name]
    task = work.tiny_task(SEED)
    found = grade(task, CONTESTANTS[who].answer(task))
    promised = norm_of(work.norm).tolerance if work.tol is None else work.tol
    assert found.gap <= (promised if who == "ours" else ORACLE)
    assert found.bound == "own"


@pytest.mark.parametrize("name", WORKS)
def test_measurements_are_complete(name):
    work = tiny(name)
    for who in ("ours", *[w for w in work.entries if w == "scipy nnls"]):
        (found,) = measure(work, CONTESTANTS[who], seeds=[SEED])
        assert json.loads(json.dumps(found, allow_nan=False)) == found
        assert found["seed"] == SEED
        assert found["size"] == list(work.tiny)
        assert found["problems"] == work.stack
        assert found["norm"] == work.norm
        assert found["repeats"] >= 1
        assert found["cpu_seconds"] > 0
        assert found["peak_mb"] > 0


def test_registries_agree():
    for name, work in WORKS.items():
        assert "ours" in work.entries, name
        assert set(work.entries) <= set(CONTESTANTS), name
    assert set(CONTESTANTS) == {who for _, who in PAIRS}


# The judge.


@pytest.fixture
def answered():
    task = WORKS["frobenius-small"].tiny_task(SEED)
    (answer,) = CONTESTANTS["ours"].answer(task)
    return task, answer


def test_a_tampered_matrix_gets_a_larger_gap(answered):
    task, answer = answered
    good = grade(task, [answer]).gap
    noise = np.random.default_rng(0).standard_normal(answer.W.shape)
    slightly = replace(answer, W=answer.W + 1e-4 * noise)
    assert good <= GAP
    assert grade(task, [Answer(7 * answer.W, 3 * answer.multipliers)]).gap <= GAP  # scale is free
    assert GAP < grade(task, [slightly]).gap < np.inf
    assert grade(task, [replace(answer, W=-answer.W)]).gap == np.inf


def test_tampered_multipliers_get_a_larger_gap(answered):
    task, answer = answered
    lam = answer.multipliers
    assert grade(task, [replace(answer, multipliers=lam + 0.1 * lam.max())]).gap > 1e-4
    assert grade(task, [replace(answer, multipliers=-lam)]).gap == np.inf


def test_without_multipliers_our_lower_bound_stands_in(answered):
    task, answer = answered
    found = grade(task, [replace(answer, multipliers=None)])
    assert found.bound == "ours"
    assert found.gap <= GAP
    doubled = answer.W.copy()
    doubled[0] += 0.1
    assert grade(task, [Answer(doubled, None)]).gap > GAP


def test_a_missing_answer_is_no_answer(answered):
    task, answer = answered
    assert grade(task, []).gap == np.inf
    assert grade(task, [Answer(None, answer.multipliers)]).gap == np.inf


def test_one_bad_answer_spoils_a_stack():
    task = WORKS["stack"].tiny_task(SEED)
    answers = CONTESTANTS["ours"].answer(task)
    assert grade(task, answers).gap <= GAP
    answers[1] = Answer(-answers[1].W, answers[1].multipliers)
    assert grade(task, answers).gap == np.inf


# Instances.


def test_tokens_and_queries_lie_on_the_sphere():
    for draw in (instances.random_selection, instances.planted_20, instances.planted_prompt):
        arrays = draw(SEED, (5, 6, 7), stack=2)
        assert np.allclose(np.linalg.norm(arrays["X"], axis=-1), 1, rtol=0, atol=ROUNDING)
        if arrays["z"] is not None:
            assert np.allclose(np.linalg.norm(arrays["z"], axis=-1), 1, rtol=0, atol=ROUNDING)


def test_a_seed_gives_the_same_instance_in_any_block_size(monkeypatch):
    whole = instances.planted_50(SEED, (40, 6, 7), stack=1)
    monkeypatch.setattr(instances, "_BLOCK", 6 * 7 * 16)
    parts = instances.planted_50(SEED, (40, 6, 7), stack=1)
    assert all(np.array_equal(whole[key], parts[key]) for key in ("X", "z", "alpha"))
    other = instances.planted_50(SEED + 1, (40, 6, 7), stack=1)
    assert not np.array_equal(whole["X"], other["X"])


@pytest.mark.parametrize(("draw", "share"), [("planted_20", 0.2), ("planted_50", 0.5)])
def test_planted_selections_are_separable_with_their_margin(draw, share):
    n, T, d = 30, 6, 7
    arrays = getattr(instances, draw)(SEED, (n, T, d), stack=1)
    rng = np.random.default_rng(SEED)
    rng.standard_normal((n, d))
    W = rng.standard_normal((d, d))
    scores = np.einsum("ntd,de,ne->nt", arrays["X"][0], W, arrays["z"][0])
    best = scores[np.arange(n), arrays["alpha"][0]]
    others = np.where(np.arange(T) == arrays["alpha"][0][:, None], -np.inf, scores)
    assert (others.max(axis=1) <= (1 - share) * best * (1 + ROUNDING)).all()
    assert (best > 0).all()


def test_rows_are_those_of_the_definition():
    X = np.arange(12.0).reshape(1, 2, 3, 2) ** 2
    task = Task(X, np.array([[[1.0, 2.0], [3.0, 4.0]]]), np.array([[1, 0]]), "frobenius")
    D, Z = task.rows(0)
    kept = [(0, 1, 0), (0, 1, 2), (1, 0, 1), (1, 0, 2)]
    assert np.array_equal(D, [X[0, i, a] - X[0, i, t] for i, a, t in kept])
    assert np.array_equal(Z, [task.z[0, i] for i, _, _ in kept])
    assert np.array_equal(task.features(0)[3], np.outer(D[3], Z[3]).ravel())


# Rows and what is to be reached.


def measured(seconds, gap=1e-10, seeds=2, peak=100.0):
    return [
        {
            "seed": s, "size": [6, 8, 10], "problems": 1, "cpu_seconds": seconds,
            "wall_seconds": seconds, "gap": gap, "bound": "own", "solver": "", "peak_mb": peak,
        }
        for s in range(seeds)
    ]  # fmt: skip


def summary(who, found, mine, **options):
    work = WORKS["frobenius-small"]
    return row(
        "frobenius-small", who, about=work, entry=work.entries[who],
        measurements=found, ours=mine, **options,
    )  # fmt: skip


def test_ratio_is_taken_on_common_seeds():
    mine = measured(1.0, seeds=3)
    mine[2]["cpu_seconds"] = 50.0
    found = summary("cvxpy loop", measured(400.0, seeds=2), mine)
    assert found["ratio"] == 400.0
    assert found["met"] is True
    assert found["reach"] == ["≥ 300 ×"]
    assert summary("cvxpy loop", measured(200.0, seeds=4), mine)["met"] is False


def test_a_reach_needs_every_part():
    mine = measured(1.0)
    assert summary("ours", mine, mine)["met"] is True
    assert summary("ours", measured(1.0, gap=1e-3), mine)["met"] is False
    assert summary("ours", measured(1.0, gap=None), mine)["met"] is False
    assert summary("ours", mine, mine, note="failed: 2 of 5 seeds")["met"] is False
    large = replace(WORKS["frobenius-small"], memory=1, cpu=10)
    for peak, seconds, met in ((500.0, 1.0, True), (2000.0, 1.0, False), (500.0, 20.0, False)):
        found = row(
            "large", "ours", about=large, entry=Entry(),
            measurements=measured(seconds, peak=peak), ours=mine,
        )  # fmt: skip
        assert found["met"] is met


def test_nothing_measured_is_not_a_failure_and_other_sizes_are_not_judged():
    found = summary("cvxpy loop", [], measured(1.0), note="no time left")
    assert found["met"] is None
    assert "no time left" in table([found])
    small = replace(WORKS["frobenius-small"], quick_size=(3, 4, 5))
    quick = row(
        "small", "cvxpy loop", about=small, entry=small.entries["cvxpy loop"],
        measurements=measured(1.0), ours=measured(1.0), quick=True,
    )  # fmt: skip
    assert (quick["met"], quick["reach"], quick["ratio"]) == (None, [], 1.0)


def test_the_table_has_a_line_a_row():
    mine = measured(1.0)
    lines = table([summary("ours", mine, mine), summary("daqp", measured(2.0), mine)]).splitlines()
    assert len(lines) == 4
    assert [cell.strip() for cell in lines[0].strip("|").split("|")] == list(HEADS)
    assert len({len(line) for line in lines}) == 1


# Records and runs.

MOMENT = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_records_are_never_rewritten(tmp_path):
    paths = []
    for k in range(3):
        with record(tmp_path, MOMENT) as lines:
            lines.add("row", {"k": k})
            assert not lines.path.exists()
        paths.append(lines.path)
    assert len(set(paths)) == 3
    assert paths[0] == tmp_path / "2030-01-02" / "030405.jsonl"
    assert [json.loads(p.read_text("utf-8")) for p in paths] == [
        {"kind": "row", "k": k} for k in range(3)
    ]


def test_a_broken_run_leaves_no_record(tmp_path):
    with pytest.raises(KeyError), record(tmp_path, MOMENT) as lines:
        lines.add("row", {})
        raise KeyError
    assert [p.name for p in lines.path.parent.iterdir()] == ["030405.jsonl.part"]
    (tmp_path / "file").touch()
    with pytest.raises(BadTokens, match="no result can be written"):
        run(quick=True, only=["choices"], out=tmp_path / "file")


def test_a_run_measures_in_children_and_records_everything(tmp_path):
    work = WORKS["frobenius-small"]
    entries = {who: replace(work.entries[who], seeds=2) for who in ("scipy nnls", "ours")}
    said = []
    result = race.compete(
        {"frobenius-small": replace(work, entries=entries)}, CONTESTANTS,
        quick=False, only=None, out=tmp_path, progress=said.append,
    )  # fmt: skip
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert [r["contestant"] for r in result["rows"]] == ["ours", "scipy nnls"]
    assert all(r["gap"] <= 1e-9 and r["seeds"] == 2 and not r["note"] for r in result["rows"])
    assert len(said) == 2
    (file,) = tmp_path.rglob("*.jsonl")
    assert str(file) == result["file"]
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert [line["kind"] for line in lines] == ["run", *(["measurement"] * 2 + ["row"]) * 2]
    assert lines[0]["machine"]["cpu"]
    assert lines[0]["machine"]["packages"]["numpy"] == np.__version__
    assert lines[0]["machine"]["threads"] == THREADS
    assert set(lines[1]["threads"].values()) == {"1"}


def test_a_contestant_that_fails_or_takes_too_long_is_noted():
    found, note = race._measure("frobenius-small", "nobody", 1, 60.0, quick=False)
    assert (found, note) == ([], "failed: KeyError: 'nobody'")
    found, note = race._measure("frobenius-small", "ours", 1, 0.01, quick=False)
    assert (found, note) == ([], "ended after 0 s")
    assert race._measure("frobenius-small", "ours", 1, 0.0, quick=True) == ([], "no time left")


def test_what_cannot_run_is_refused_before_anything_is_measured(tmp_path, monkeypatch):
    with pytest.raises(Unsupported, match="unknown work 'cubic': known are frobenius-small"):
        run(only=["cubic"], out=tmp_path)
    with pytest.raises(Unsupported, match="'frobenius-huge' is too long for a quick run"):
        run(quick=True, only=["frobenius-huge"], out=tmp_path)
    find = importlib.util.find_spec
    hidden = ("cvxpy", "daqp")
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in hidden else find(name)
    )
    with pytest.raises(Unsupported, match=r"needs cvxpy, daqp: pip install 'attsvm\[bench\]'"):
        run(quick=True, only=["frobenius-small"], out=tmp_path)
    assert not list(tmp_path.iterdir())
