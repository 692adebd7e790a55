"""The ledger: what it keeps is enough to take the last step again, whatever the rule."""

import numpy as np
import pytest

from attsvm.claims import CLAIMS
from attsvm.claims.a.multi_input import instance
from attsvm.claims.shared.ledger import Doubt, Ledger, opened
from attsvm.claims.shared.work import measured, recalled, train
from attsvm.doors import train as train_in_full
from attsvm.problem.tokens import Tokens
from attsvm.reproduce import audit_claims
from attsvm.reproduce.replay import recorded, replayed
from tests.claims.tampering import fabricated as forge
from tests.claims.test_contract import on_file
from tests.tolerances import REPLAYED

RULES = ("gd", "ngd", "polyak", "mirror:3", "nmirror:1.75", "sign", "spectral", "signum", "muon",
         "adam")  # fmt: skip


def stack(count=3):
    draw = np.random.default_rng(0)
    tokens = [Tokens(draw.standard_normal((3, 4, 3)), queries=draw.standard_normal((3, 3)),
                     labels=np.ones(3)) for _ in range(count)]  # fmt: skip
    return tokens, draw.standard_normal((count, 3))


@pytest.mark.parametrize(
    ("rule", "model"),
    # Polyak's steps are not bounded: on factors they leave the range of floats.
    [(r, m) for r in RULES for m in ("weight", "factored") if (r, m) != ("polyak", "factored")],
)
def test_the_last_step_is_taken_again(rule, model):
    tokens, heads = stack()
    given = {"model": model, "rule": rule, "head": heads, "lr": 0.1, "steps": 60,
             "schedule": "sqrt", "init": "normal:0.5"}  # fmt: skip
    whole = train_in_full(tokens, **given)
    with opened(Ledger()) as ledger:
        kept = train(tokens, **given)
    assert all(np.array_equal(kept.weights[k], whole.weights[k]) for k in whole.weights)
    kind = ledger.pieces[0][0]
    chosen = frozenset({(kind, 0, 1)})
    with opened(Ledger(saved=ledger.closed(), chosen=chosen)):
        again = train(tokens, **given)
    for name, block in whole.weights.items():
        assert np.array_equal(again.weights[name][0], block[0])
        assert again.weights[name][-1] == pytest.approx(block[-1], rel=REPLAYED, abs=REPLAYED)
        assert again.weights[name][:, 1] == pytest.approx(block[:, 1], rel=REPLAYED, abs=REPLAYED)
        assert np.isnan(again.weights[name][1:-1, [0, 2]]).all()
    assert np.array_equal(again.top[-1], whole.top[-1])


@pytest.mark.parametrize("rule", ["ngd", "spectral", "adam"])
def test_another_record_before_the_end_gives_another_end(rule):
    tokens, heads = stack()
    given = {"rule": rule, "head": heads, "lr": 0.1, "steps": 60}
    with opened(Ledger()) as ledger:
        kept = train(tokens, **given)
    saved = {k: 1.01 * a if k == "ledger.0.W" else a for k, a in ledger.closed().items()}
    with opened(Ledger(saved=saved)):
        if rule == "spectral":
            with pytest.raises(Doubt, match="last step of instance 0"):
                train(tokens, **given)
        else:
            again = train(tokens, **given)
            assert np.abs(again.weights["W"][-1] - kept.weights["W"][-1]).max() > 1e-3


def test_what_is_measured_is_unknown_unless_chosen():
    def search(which):
        return {"x": np.stack([np.arange(4.0) + b for b in which], axis=1)}

    asked = {"count": 3, "axis": 1}
    with opened(Ledger()) as ledger:
        whole = measured(search, {"x": (4, 3)}, **asked)["x"]
        assert recalled("size", 3) == 3
    saved = ledger.closed()
    with opened(Ledger(saved=saved, chosen=frozenset({("run", 0, 2)}))):
        part = measured(search, {"x": (4, 3)}, steady=np.arange(4) < 2, **asked)["x"]
        assert recalled("size", 4) == 3
    assert np.array_equal(part[:2, 2], whole[:2, 2])
    assert np.isnan(part[2:]).all() and np.isnan(part[:, :2]).all()


def invented_run(steps, start):
    """Normalized descent by a formula of one's own, from another start: the records and the one
    before the last. Attention is on the best tokens from the first step on."""
    tokens, v = instance("multi-input-planar")
    keys = np.asarray(tokens.keys)
    scores = np.asarray(tokens.X) @ v * np.asarray(tokens.labels)[:, None]
    best = scores.argmax(axis=1)
    rows = np.arange(tokens.n)
    apart = keys - keys[rows, best][:, None]
    lost = scores[rows, best][:, None] - scores
    p, out, before = start, [], start
    for step in range(int(steps[-1]) + 1):
        if step in steps:
            out.append(p)
        logits = apart @ p
        s = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        f = scores[rows, best] - (s * lost).sum(axis=1)
        weight = s * (lost - (s * lost).sum(axis=1, keepdims=True)) / (1 + np.exp(f))[:, None]
        G = np.einsum("nt,ntd->d", weight, apart)
        before, p = p, p - 0.1 * G / np.linalg.norm(G)
        if step == steps[-1] - 1:
            late = before
    return np.array(out), late


def test_a_run_from_another_start_passes_judging_and_not_the_audit(tmp_path):
    name = "A.multi-input"
    claim = CLAIMS[name]
    arrays = dict(recorded(claim, claim.quick))
    best = arrays["planar.W"][0, :, 0]
    forged, late = invented_run(arrays["steps"].tolist(), 20 * best)
    p, before = np.array(arrays["p"]), np.array(arrays["ledger.0.p"])
    p[1:, 0], before[0] = forged[1:], late
    changed = {**arrays, "p": p, "ledger.0.p": before}
    assert not replayed(claim, claim.quick, changed).doubts
    assert claim.check(claim.quick, changed).verdict == "holds"
    folder = on_file(tmp_path / "there", name)
    forge.write(folder, name, changed)
    (row,) = audit_claims(out=folder, share=1.0)["claims"]
    assert not row["agrees"] and row["doubts"][0].startswith("p[")
