"""--instances and --first: a claim on other draws, audited with its own config."""

import json
from pathlib import Path

import numpy as np
import pytest

from attsvm._utils import memory
from attsvm.experiments.studies import CLAIMS
from attsvm.experiments.studies.claim import (
    Finding,
    NothingInside,
    at_most,
    can_redraw,
    redrawn,
    seeds_of,
)
from tests.cli.command import refused
from tests.experiments.reproduce.made_claims import NAME, made

RANDOM = "Z.random"


def _draws(config):
    if config["needs"] > len(seeds_of(config)):
        raise NothingInside(f"0 of {len(seeds_of(config))} instances are good")
    return {"seeds": np.array(seeds_of(config), dtype=float)}


def _check(config, result):
    test = at_most("distance to the seeds", np.abs(result["seeds"] - seeds_of(config)).max(), 0)
    return Finding((test,), f"{len(result['seeds'])} seeds", len(result["seeds"]), 0.0)


def _plot(config, result):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2, 1))
    figure.subplots().plot(result["seeds"])
    return figure


@pytest.fixture(autouse=True, params=[4, [1, 5, 7]], ids=["a count", "a list"])
def made_claims(monkeypatch, request):
    config = {"seeds": request.param, "start": 3, "needs": 3}
    random = made(RANDOM, run=None, full=config, quick=config, check=_check, plot=_plot)
    monkeypatch.setitem(CLAIMS, NAME, made())
    monkeypatch.setitem(CLAIMS, RANDOM, type(random)(**{**vars(random), "run": _draws}))


def test_the_seeds_asked_for_are_run_and_audited(run):
    done = run("reproduce", RANDOM, "--instances", "5", "--first", "900", "--json")
    assert done.code == 0
    record = done.report["claims"][0]
    assert seeds_of(record["config"]) == [900, 901, 902, 903, 904]
    assert record["config"]["start"] == 903
    with np.load("attsvm-report/claims/Z.random.npz") as saved:
        assert saved["seeds"].tolist() == [900, 901, 902, 903, 904]
    assert run("reproduce", RANDOM, "--audit").code == 0


def test_a_config_that_no_draw_makes_is_not_run_again(run):
    run("reproduce", RANDOM, "--first", "900")
    file = "attsvm-report/claims/Z.random.json"
    with open(file) as f:
        record = json.load(f)
    for change in ({"needs": 2}, {"start": 4}, {"seeds": 1}, {"seeds": "many"}, {"seeds": None}):
        with open(file, "w") as f:
            json.dump({**record, "config": {**record["config"], **change}}, f)
        done = run("reproduce", RANDOM, "--audit")
        assert done.code == 5 and "run with another config" in done.err


def test_premises_that_leave_nothing_make_it_undecided_with_the_count(run):
    done = run("reproduce", RANDOM, "--instances", "2", "--json")
    assert done.code == 0
    record = done.report["claims"][0]
    assert record["verdict"] == "undecided" and record["judged"] == 0
    assert "0 of 2 instances are good" in record["reason"]
    assert run("reproduce", RANDOM, "--audit").code == 0
    assert run("reproduce", RANDOM, "--json").report["claims"][0]["verdict"] == "holds"


@pytest.mark.parametrize(
    "options",
    [("--instances", "1"), ("--instances", "-3"), ("--first", "-1"), ("--first", "9" * 12)],
)
def test_draws_that_cannot_be_are_refused(run, options):
    refused(run("reproduce", RANDOM, *options), options[0])


def test_more_instances_than_memory_holds_are_refused_before_any_work(run, monkeypatch):
    """No list of seeds is made and no folder: one sentence with both figures."""
    monkeypatch.setattr(memory, "_of_the_machine", lambda: 2e9)
    done = run("reproduce", RANDOM, "--instances", "9" * 13)
    refused(done, f"{'9' * 13} instances of {RANDOM} would need", "2 GB are free", "--instances")
    assert not Path("attsvm-report").exists()
    refused(run("reproduce", RANDOM, "--instances", "5000000"), "would need about 2 GB")
    assert run("reproduce", RANDOM, "--instances", "5").code == 0


def test_draws_that_change_nothing_are_refused(run):
    refused(run("reproduce", NAME, "--instances", "5"), NAME, "no random instances")
    refused(run("reproduce", "--audit", "--first", "5"), "--audit")


def test_every_claim_with_seeds_is_redrawn_or_says_that_it_is_published():
    for name, claim in CLAIMS.items():
        if "seeds" not in claim.full or name.startswith("Z."):
            continue
        assert can_redraw(claim) != claim.fixed
        config = redrawn(claim.quick, instances=3, first=5000)
        assert seeds_of(config) == [5000, 5001, 5002]
        assert {k for k in config if config[k] != claim.quick.get(k)} <= {
            "seeds", "first", "start", "seed",
        }  # fmt: skip
