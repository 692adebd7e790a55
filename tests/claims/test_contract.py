"""Every claim: a quick run is judged from its result alone, and three tampered results fail."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from attsvm.claims import CLAIMS, claim_of
from attsvm.errors import Unsupported
from attsvm.report.style import look
from tests.claims.spoils import SPOILS

# Claims whose statement does not hold as published, with what is found instead.
KNOWN = {
    # The mean over accepted runs is above the published one, the median is not.
    "B.multi-token-relu": "fails",
    # Started where all inputs but one are met, descent stays there.
    "B.equal-scores-global": "fails",
    # The strict ordering by kinds has ties and reversals, certified.
    "D.order-extension-ties": "fails",
    # One stage on both losses ends nearer to both solutions.
    "D.two-stage-against-one-stage": "fails",
}


@cache
def quick(name):
    """The result of a quick run; every array of it can be saved without pickles."""
    claim = CLAIMS[name]
    result = claim.run(claim.quick)
    assert all(np.asarray(a).dtype.kind in "biufU" for a in result.values())
    return result


@pytest.mark.parametrize("name", CLAIMS)
def test_quick_run_has_its_verdict(name):
    claim = CLAIMS[name]
    found = claim.check(claim.quick, quick(name))
    missed = [test for test in found.tests if test.met is False]
    assert found.verdict == KNOWN.get(name, "holds"), (missed, found.reason)
    assert found.premises
    assert found.verdict == "holds" or found.reason, "what does not hold needs a reason"


@pytest.mark.parametrize(
    ("name", "place"), [(name, k) for name in CLAIMS for k in range(len(SPOILS[name]))]
)
def test_tampered_result_fails(name, place):
    claim = CLAIMS[name]
    what, spoil = SPOILS[name][place]
    spoiled = spoil(claim.quick, {k: np.array(a) for k, a in quick(name).items()})
    whole = claim.check(claim.quick, quick(name))
    found = claim.check(claim.quick, spoiled)
    assert found.verdict != "holds", what
    assert {t.what for t in found.tests if t.met is False} - {
        t.what for t in whole.tests if t.met is False
    }, what


@pytest.mark.parametrize("name", CLAIMS)
def test_picture_is_drawn_from_the_result(name, tmp_path):
    claim = CLAIMS[name]
    with look():
        figure = claim.plot(claim.quick, quick(name))
        figure.savefig(tmp_path / "claim.svg")
    assert figure.axes
    assert all(axes.get_xlabel() or axes.get_title() for axes in figure.axes if axes.axison)
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


def test_every_claim_can_be_spoiled():
    assert SPOILS.keys() == CLAIMS.keys()
    assert all(len(spoils) >= 3 for spoils in SPOILS.values())


def test_unknown_claim_names_the_nearest():
    with pytest.raises(Unsupported, match="single-input-global"):
        claim_of("A.single-input-globl")
