"""Every claim: a quick run is judged from its result alone, and what is tampered with is noticed.

Three tampered results each do not pass the check. Fabricated ones, whole paths or whole results
invented with digests to match, may pass it; they are noticed by the replay that judging makes, or
by the audit.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from attsvm.claims import CLAIMS, claim_of
from attsvm.errors import Unsupported
from attsvm.figures.narrow import WIDTH, stack
from attsvm.figures.run import place_parts
from attsvm.figures.style import styled
from attsvm.figures.ticks import plain_ticks
from attsvm.ground.files import write_arrays
from attsvm.ground.records import write_json
from attsvm.reproduce import audit_claims, judge
from attsvm.reproduce.digests import array_digests
from attsvm.reproduce.judging import judged
from attsvm.reproduce.replay import recorded, replayed
from tests.claims.pictures import covered, cut, unnamed
from tests.claims.tampering import TAMPERED
from tests.claims.tampering import fabricated as forge

# Those on real data are tried in tests/claims/real, where torch and the data are.
HERE = [name for name, claim in CLAIMS.items() if not claim.real]

# Claims whose statement does not hold as published, with what is found instead.
KNOWN = {
    # With the published eps the readings come out again; without it runs go on, away from them.
    "B.multi-token-relu": "fails",
    # Started where some inputs are met, descent stays there, proved; two other statements follow.
    "B.equal-scores-global": "fails",
    "B.nearly-equal-scores": "fails",
    "B.initial-gradient-condition": "fails",
    # Some tokens are loose until d is of the order of T² log T.
    "B.all-tight-against-dimension": "fails",
    # The strict ordering by kinds has ties and reversals, certified.
    "D.order-extension-ties": "fails",
    # One stage on both losses ends nearer to both solutions.
    "D.two-stage-against-one-stage": "fails",
}


@cache
def quick(name):
    """The result of a quick run; every array of it can be saved without pickles."""
    claim = CLAIMS[name]
    result = recorded(claim, claim.quick)
    assert all(np.asarray(a).dtype.kind in "biufU" for a in result.values())
    return result


@pytest.mark.parametrize("name", HERE)
def test_quick_run_has_its_verdict(name):
    claim = CLAIMS[name]
    found = claim.check(claim.quick, quick(name))
    missed = [test for test in found.tests if test.met is False]
    assert found.verdict == KNOWN.get(name, "holds"), (missed, found.reason)
    assert found.premises
    assert found.verdict == "holds" or found.reason, "what does not hold needs a reason"


@pytest.mark.parametrize(
    ("name", "place"), [(name, k) for name in HERE for k in range(len(TAMPERED[name]))]
)
def test_tampered_result_fails(name, place):
    claim = CLAIMS[name]
    what, tamper = TAMPERED[name][place]
    tampered = tamper(claim.quick, {k: np.array(a) for k, a in quick(name).items()})
    whole = claim.check(claim.quick, quick(name))
    found = claim.check(claim.quick, tampered)
    assert found.verdict != "holds", what
    assert {t.what for t in found.tests if t.met is False} - {
        t.what for t in whole.tests if t.met is False
    }, what


@pytest.mark.parametrize("name", HERE)
def test_picture_is_drawn_from_the_result(name, tmp_path):
    claim = CLAIMS[name]
    with styled():
        figure = claim.plot(claim.quick, quick(name))
        assert figure.axes
        assert all(axes.get_xlabel() or axes.get_title() for axes in figure.axes if axes.axison)
        assert unnamed(figure) == []
        plain_ticks(figure)
        place_parts(figure)
        assert cut(figure) == []
        figure.savefig(tmp_path / "claim.svg")
        stack(figure)
        assert cut(figure) == [] and covered(figure) == []
        assert figure.get_figwidth() == WIDTH
    if claim.motion is not None:
        moving = claim.motion(claim.quick, quick(name))
        for track in moving.tracks:
            assert len(track.x) in (1, len(moving.steps))
            assert len(track.kind) in (1, len(moving.steps))


@pytest.mark.parametrize("name", CLAIMS)
def test_claim_is_described(name):
    claim = CLAIMS[name]
    assert claim.full.keys() == claim.quick.keys()
    assert claim.statement.endswith(".")
    assert claim.title


def test_every_claim_can_be_tampered():
    assert TAMPERED.keys() == CLAIMS.keys()
    assert all(len(ways) >= 3 for ways in TAMPERED.values())


def test_unknown_claim_names_the_nearest():
    with pytest.raises(Unsupported, match="single-input-global"):
        claim_of("A.single-input-globl")


# Claims without runs: searches for the least loss, and solutions alone.
NO_RUNS = (
    "A.joint-path", "A.regularization-path", "A.vanishing-penalty", "A.nonlinear-head-path",
    "B.rank", "B.separability-against-dimension", "B.local-path", "B.low-rank",
    "B.all-tight-against-dimension", "B.regularization-path-frobenius",
    "B.regularization-path-nuclear", "C.mirror-path",
    "C.joint-mirror-path", "beyond.flipped-labels", "beyond.mini-batches",
)  # fmt: skip
# Of these, the ones that keep nothing but solutions.
SOLVED = (
    "B.rank", "B.separability-against-dimension", "B.low-rank", "B.all-tight-against-dimension",
    "beyond.flipped-labels",
)  # fmt: skip
# Claims that keep no solution that could be dropped.
UNSOLVED = (
    "A.gd-against-ngd", "A.prompt-weight-equivalence", "B.simplex-projection",
    "B.global-share-against-dimension",
    "beyond.saturation-is-not-convergence", "beyond.basins-by-proof",
)  # fmt: skip


def on_file(folder: Path, name: str) -> Path:
    """A folder that holds the quick run of a claim."""
    claim, file = CLAIMS[name], folder / "claims" / f"{name}.npz"
    file.parent.mkdir(parents=True)
    (folder / "figures").mkdir()
    write_arrays(file, quick(name))
    about = {"config": claim.quick, "quick": True, "arrays": array_digests(file)}
    record = judged(claim, claim.quick, quick(name), about)
    write_json(folder / "claims" / f"{name}.json", record)
    write_json(folder / "attsvm.json", {"format": 1})
    return folder


def doubts(name, forged):
    """What judging says of a forged result."""
    return replayed(CLAIMS[name], CLAIMS[name].quick, forged).doubts


@pytest.mark.parametrize("name", HERE)
def test_replay_of_a_run_has_no_doubts(name):
    found = replayed(CLAIMS[name], CLAIMS[name].quick, quick(name))
    assert found.doubts == ()
    assert found.pieces


@pytest.mark.parametrize("forgery", [forge.straight, forge.random_ends])
@pytest.mark.parametrize("name", [name for name in HERE if name not in NO_RUNS])
def test_fabricated_paths_are_noticed(name, forgery):
    forged = forgery(quick(name))
    assert any(
        not np.array_equal(a, quick(name)[k])
        for k, a in forged.items()
        if not k.startswith(forge.LEDGER) and k not in forge.solutions(forged)
    )
    assert doubts(name, forged)


@pytest.mark.parametrize("name", [name for name in HERE if name not in UNSOLVED])
def test_dropped_solutions_are_noticed(name):
    assert doubts(name, forge.dropped(quick(name)))


@pytest.mark.parametrize("name", HERE)
def test_invented_results_are_noticed(name, tmp_path):
    folder = on_file(tmp_path / "invented", name)
    forge.write(folder, name, forge.invented(forge.read(folder, name)))
    (row,) = audit_claims(out=folder, seed=0)["claims"]
    assert not row["agrees"]


@pytest.mark.parametrize("name", [name for name in NO_RUNS if name not in SOLVED])
def test_fabricated_searches_are_noticed(name, tmp_path):
    folder = on_file(tmp_path / "searched", name)
    forge.write(folder, name, forge.stretched(forge.read(folder, name)))
    (row,) = audit_claims(out=folder, seed=0, share=0.01)["claims"]
    assert not row["agrees"]


def _worse(arrays):
    """The last records of one stage, random."""
    forged = forge.random_ends(arrays)
    return {k: forged[k] if k.startswith("L") else a for k, a in arrays.items()}


def _settled(arrays):
    """The runs of the example, each along the solution, as far as they were."""
    out = {k: np.array(a) for k, a in arrays.items()}
    steps, best = arrays["three.steps"], arrays["three.best.W"][0]
    size = np.log1p(steps)[:, None, None, None] + 8.0
    out["three.W"] = np.repeat(size, arrays["three.W"].shape[1], axis=1) * best
    (run,) = {run for name, _, run, _ in forge.ends(arrays) if name == "three.W"}
    out[run] = np.repeat(out["three.W"][-1:, 0], len(arrays[run]), axis=0)
    return out


def test_a_proof_at_the_start_needs_nothing_on_file():
    claim = CLAIMS["B.equal-scores-global"]
    arrays = {k: np.array(a) for k, a in quick(claim.id).items()}
    best = arrays["two.best.W"][0]
    arrays["two.W"] = np.arange(1, len(arrays["two.W"]) + 1)[:, None, None, None] * np.stack(
        [best] * arrays["two.W"].shape[1]
    )
    for name in arrays:
        if name.startswith("contradict.") and name.endswith(".W"):
            arrays[name][:] = 0.0
    found = claim.check(claim.quick, arrays)
    assert found.verdict == "fails"
    assert found.tests[0].seen == 1, "the longest start of the example"


@pytest.mark.parametrize(
    ("name", "forgery"),
    [("B.initial-gradient-condition", _settled), ("D.two-stage-against-one-stage", _worse)],
)
def test_a_failing_claim_cannot_be_made_to_hold(name, forgery, tmp_path):
    claim, forged = CLAIMS[name], forgery(quick(name))
    assert claim.check(claim.quick, quick(name)).verdict == "fails"
    assert claim.check(claim.quick, forged).verdict == "holds", "the check alone is deceived"
    folder = on_file(tmp_path / "turned", name)
    forge.write(folder, name, forged)
    (record,) = judge(folder)
    assert record["verdict"] == "undecided" and record["doubts"]
    assert "not what the run makes" in record["reason"]


# Claims of whose quick runs a tenth takes seconds.
LONG = ("C.", "D.", "beyond.", "A.vanishing", "A.regularization", "A.nonlinear", "B.multi-token")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n.startswith(LONG) else n for n in HERE],
)
def test_audit_agrees_with_a_run(name, tmp_path):
    (row,) = audit_claims(out=on_file(tmp_path / "own", name), seed=0)["claims"]
    assert row["agrees"], row["doubts"]
    assert row["rerun"] >= 1
