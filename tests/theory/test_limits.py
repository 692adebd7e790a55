"""The table of limits: every pair has a row, conjectures stay conjectures, premises are checked."""

import itertools
import re
from typing import get_args

import numpy as np
import pytest

import attsvm
from attsvm import Tokens, Unsupported
from attsvm.datasets import EXAMPLES
from attsvm.norms import NORMS, norm_of
from attsvm.references import REFERENCES
from attsvm.theory.limits import MODELS, OPTIMIZERS, PREMISES, SPECIAL, TABLE, Status, predict
from attsvm.training.heads import Quadratic
from attsvm.training.models import MODELS as TRAINED
from attsvm.training.optimizers import OPTIMIZERS as TRAINERS
from tests.zoo import sphere_tokens

# The names of the public face.
FACE_MODELS = (
    "prompt", "weight", "factored", "joint-prompt", "joint-weight", "multi-head", "split-heads",
    "qk-norm", "next-token",
)  # fmt: skip
FACE_OPTIMIZERS = (
    "gd", "ngd", "polyak", "mirror:1.75", "mirror:3", "nmirror:1.75", "sign", "signum",
    "spectral", "muon", "adam",
)  # fmt: skip
GRAPH = attsvm.Sentences.of([[0, 1, 2, 0], [0, 1, 2, 1], [0, 3, 2, 0]], collocations="copy")
LINEAR = {"fan2025spectral", "zhang2024adam"}  # theorems on linear models only


@pytest.mark.parametrize(
    ("model", "optimizer"), list(itertools.product(FACE_MODELS, FACE_OPTIMIZERS))
)
def test_every_pair_has_a_limit(model, optimizer):
    limit = predict(model, optimizer)
    assert (limit.model, limit.optimizer) == (model, optimizer)
    assert limit.norm is None or norm_of(limit.norm).name == limit.norm
    assert limit.status in get_args(Status) and limit.statement.endswith(".")
    assert (limit.status == "none") == (not limit.references)
    assert limit.premises and all(p.name and p.detail for p in limit.premises)
    assert all(p.holds is None for p in limit.premises if "loss" not in p.name)
    assert limit.word.startswith(limit.status) and not limit.established


def test_the_table_is_whole():
    families = {optimizer for _, optimizer in TABLE}
    assert set(TABLE) == set(itertools.product(FACE_MODELS, families)) and MODELS == FACE_MODELS
    assert set(TRAINED) <= set(MODELS)
    assert {name.removesuffix(":P") for name in TRAINERS} | {"path"} == families
    for row in (*TABLE.values(), *SPECIAL.values()):
        assert set(row.references) <= set(REFERENCES) and set(row.premises) <= set(PREMISES)
        assert row.norm is None or row.norm in NORMS
    named = {name for row in (*TABLE.values(), *SPECIAL.values()) for name in row.premises}
    assert set(PREMISES) == named | {"no decay"}  # of every row, where there is any


@pytest.mark.parametrize("key", list(TABLE))
def test_no_conjecture_is_called_a_theorem(key):
    row = TABLE[key]
    if set(row.references) & LINEAR:
        assert row.status not in ("proved", "path-only")
    if row.status in ("conjectured", "measured", "none"):
        said = row.statement.lower()
        assert re.search("conjecture|suggest|not |no |only|theorem", said), said
    else:
        assert row.norm is not None
    proved = {
        ("prompt", "gd"), ("prompt", "mirror"), ("weight", "gd"), ("weight", "ngd"),
        ("weight", "polyak"), ("weight", "mirror"), ("joint-weight", "ngd"), ("next-token", "ngd"),
    }  # fmt: skip
    assert (row.status == "proved") == (key in proved)


@pytest.mark.parametrize(
    ("model", "optimizer", "norm", "status"),
    [
        ("prompt", "gd", "frobenius", "proved"),
        ("weight", "polyak", "frobenius", "proved"),
        ("weight", "mirror:1.75", "l1.75", "proved"),
        ("weight", "nmirror:1.1", "l1.1", "conjectured"),
        ("weight", "mirror:3.0", "l3", "proved"),
        ("weight", "mirror:10", "l10", "proved"),
        ("weight", "mirror:2", "frobenius", "proved"),
        ("weight", "nmirror:2.0", "frobenius", "proved"),
        ("weight", "sign", "max", "conjectured"),
        ("weight", "muon", "spectral", "conjectured"),
        ("weight", "adam", "max", "conjectured"),
        ("factored", "gd", "nuclear", "conjectured"),
        ("factored", "mirror:2", "nuclear", "conjectured"),
        ("factored", "path", "nuclear", "path-only"),
        ("factored", "spectral", "spectral", "conjectured"),
        ("factored", "sign", None, "conjectured"),
        ("factored", "adam", None, "none"),
        ("joint-prompt", "ngd", "frobenius", "path-only"),
        ("joint-weight", "mirror:3", "l3", "path-only"),
        ("joint-weight", "sign", "max", "conjectured"),
        ("next-token", "ngd", "frobenius", "proved"),
        ("next-token", "gd", "frobenius", "conjectured"),
        ("multi-head", "ngd", "frobenius", "measured"),
        ("split-heads", "mirror:2", "frobenius", "conjectured"),
        ("qk-norm", "ngd", None, "measured"),
        ("qk-norm", "gd", None, "none"),
    ],
)
def test_rows(model, optimizer, norm, status):
    limit = predict(model, optimizer)
    assert (limit.norm, limit.status) == (norm, status)


@pytest.mark.parametrize(
    "optimizer", ["sgd", "mirror", "mirror:", "mirror:1", "mirror:0.5", "mirror:x", "gd:2", ""]
)
def test_unknown_rules_are_named(optimizer):
    with pytest.raises(Unsupported, match=r"unknown optimizer .* gd, ngd, .*mirror:P"):
        predict("weight", optimizer)


def test_unknown_models_and_losses_are_named():
    with pytest.raises(Unsupported, match="unknown model 'mlp': known are prompt, weight"):
        predict("mlp", "gd")
    with pytest.raises(Unsupported, match="unknown loss"):
        predict("weight", "gd", loss="hinge")
    assert "mirror" not in OPTIMIZERS and "path" in OPTIMIZERS


def holds(limit, words):
    """The verdict and detail of the one premise whose name has these words."""
    (found,) = [p for p in limit.premises if words in p.name]
    return found.holds, found.detail


def test_premises_on_an_instance_of_the_papers():
    a = EXAMPLES["multi-input"]()
    tokens = Tokens(a["X"], labels=a["y"])
    limit = predict("prompt", "gd", tokens, head=a["v"])
    for words in ("one best token", "share one score", "some matrix selects", "head is linear"):
        assert holds(limit, words)[0] is True
    assert holds(limit, "start is large")[0] is None
    without = predict("prompt", "gd", tokens)
    for words in ("one best token", "share one score", "some matrix selects", "head is linear"):
        assert holds(without, words)[0] is None


def test_general_scores_leave_the_start_to_decide():
    tokens, v = sphere_tokens(4, 5, 6, seed=0)
    limit = predict("weight", "gd", tokens, head=v)
    said, detail = holds(limit, "share one score")
    assert said is False and re.search(r"tokens \d and \d of input 0", detail)
    assert holds(limit, "some matrix selects")[0] is True


FOUR = [[[1.0, 0.0], [0.5, 1.0], [0.5, 2.0], [7.0, 3.0]]]  # without the last, the others tie
LEVEL = Tokens([[[1.0, 1.0], [1.0, -1.0], [0.0, 0.0]]])
# The key of the best token lies between the other two.
BETWEEN = Tokens([[[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]]], keys=[[[0.0], [1.0], [-1.0]]])
ALONE = Tokens([[[1.0, 0.0]]])
# No decoder gives the best tokens, which are equal, both labels.
MIXED = Tokens([[[1.0, 1.0], [0.0, 0.5]], [[1.0, 1.0], [0.0, 2.0]]], labels=[1, -1])


@pytest.mark.parametrize(
    ("model", "tokens", "head", "words", "said", "why"),
    [
        ("prompt", Tokens(FOUR), [1.0, 0.0], "share one score", False, ""),
        ("prompt", Tokens(FOUR, mask=[[1, 1, 1, 0]]), [1.0, 0.0], "share one score", True, ""),
        ("prompt", LEVEL, [1.0, 0.0], "one best token", False, "tokens 0 and 1 of input 0"),
        ("prompt", LEVEL, [1.0, 0.0], "some matrix selects", None, ""),
        ("prompt", BETWEEN, [0.0, 1.0], "some matrix selects", False, "no W satisfies these"),
        ("prompt", ALONE, [1.0, 0.0], "some matrix selects", True, ""),
        ("prompt", ALONE, [1.0, 0.0], "share one score", True, ""),
        ("joint-prompt", MIXED, [0.0, 1.0], "supports the decoder", False, "no decoder separates"),
    ],
)
def test_premises_known_by_hand(model, tokens, head, words, said, why):
    found, detail = holds(predict(model, "gd", tokens, head=head), words)
    assert found is said and why in detail


@pytest.mark.parametrize(("name", "tight"), [("joint-tight", True), ("joint-relaxed", False)])
def test_support_of_the_decoder(name, tight):
    a = EXAMPLES[name]()
    tokens = Tokens(a["X"], labels=a["y"])
    limit = predict("joint-prompt", "ngd", tokens, head=[0.0, 1.0])
    said, detail = holds(limit, "supports the decoder")
    assert said is tight and ("inputs [2] do not" in detail) == (not tight)
    assert holds(limit, "has a label")[0] is True
    bare = predict("joint-prompt", "ngd", Tokens(a["X"]), head=[0.3, 1.0])
    assert holds(bare, "has a label")[0] is False
    assert holds(bare, "supports the decoder")[0] is None


def test_heads_and_losses():
    tokens, v = sphere_tokens(3, 4, 5, seed=1)
    bent = predict("weight", "mirror:3", tokens, head=Quadratic(v[None], 0.5), loss="squared")
    assert holds(bent, "head is linear") == (False, "the head is quadratic")
    assert holds(bent, "loss decreases") == (False, "the loss is squared")
    assert holds(bent, "one best token")[0] is None
    for loss in ("logistic", "exponential", "linear"):
        assert holds(predict("weight", "gd", loss=loss), "loss decreases")[0] is True
    alone = predict("weight", "gd", head=v)
    assert holds(alone, "head is linear")[0] is True and holds(alone, "one best")[0] is None
    several = predict("weight", "gd", tokens, head=np.stack([v, -v]))
    assert holds(several, "one best token")[0] is None
    assert "rank of 3 always" in holds(predict("factored", "gd", tokens), "from their start")[1]


def test_a_theorem_waits_for_its_premises():
    tokens, v = sphere_tokens(3, 4, 5, seed=1)
    limit = predict("weight", "gd", tokens, head=v)
    assert limit.status == "proved" and not limit.established and not limit.failing
    # That scores differ is no fault: a start near the limit does as well.
    assert holds(limit, "share one score")[0] is False
    assert limit.word == (
        "proved if: the start is large and near the limit's direction, at locally optimal tokens; "
        "the step is constant and small"
    )
    bent = predict("weight", "mirror:3", tokens, head=Quadratic(v[None], 0.5), loss="squared")
    assert [p.name for p in bent.failing] == [
        "the head is linear", "the loss decreases strictly with the margin",
    ]  # fmt: skip
    assert bent.word.startswith("does not apply: premises 'the head is linear', 'the loss")


def test_conjectures_and_paths_keep_their_words():
    tokens, v = sphere_tokens(3, 4, 5, seed=1)
    assert predict("weight", "sign", tokens, head=v).word == "conjectured"
    squared = predict("weight", "sign", tokens, head=v, loss="squared")
    assert squared.word.startswith("conjectured; premise 'the loss") and not squared.established
    path = predict("weight", "path", tokens, head=v)
    assert path.word == "path-only" and not path.established  # all premises hold
    assert path.failing == path.unchecked == ()
    assert predict("weight", "path").word.startswith("path-only if: the head is linear; ")
    assert predict("factored", "adam", tokens, head=v, loss="squared").word == "none"


def test_a_target_halves_the_margins_of_inputs_that_attain_it():
    rng = np.random.default_rng(3)
    values = np.array([[1.0, 0.2, 0.5], [0.8, 0.1, 0.3]])[:, :, None]
    keys, z = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 4))
    tokens = Tokens(values, keys=keys, queries=z, labels=[1, 1])
    limit = predict("weight", "ngd", tokens, head=[1.0], loss="squared")
    assert limit.status == "conjectured" and not limit.failing
    said, detail = holds(limit, "beyond the target")
    assert said is True and detail.startswith("inputs [0] attain it")
    assert holds(predict("weight", "gd", tokens, head=[1.5], loss="squared"), "target")[0] is False
    path = attsvm.train(tokens, head=[1.0], loss="squared", lr=1.0, schedule="sqrt", steps=20_000)
    found = attsvm.outcome(path, tokens, [1.0])
    assert found.certificate.problem.b.tolist() == [0.5, 0.5, 1.0, 1.0]
    whole = attsvm.solve(attsvm.Problem.of(tokens, [0, 0]))
    assert found.correlation > 0.9999 > attsvm.measures.correlation(found.W, whole) + 1e-3


def test_the_readout_mass_has_the_theorem_on_graphs():
    one = predict("next-token", "gd", GRAPH, readout="mass")
    assert one.status == "proved" and [p.holds for p in one.premises] == [None, True, True, None]
    assert predict("next-token", "ngd", GRAPH, readout="mass").status == "conjectured"
    opposite = attsvm.Sentences.of([[0, 1, 0], [0, 1, 1]], collocations="copy")
    bare = predict("next-token", "gd", opposite, readout="mass")
    assert holds(bare, "leads from one") == (
        False,
        "every edge is on a cycle: W tends to a finite limit",
    )
    path = attsvm.train(GRAPH, model="next-token", readout="mass", optimizer="gd", steps=10)
    limit = attsvm.outcome(path, GRAPH).limit
    assert limit.word == "proved if: the step is constant and small"
    with pytest.raises(Unsupported, match="readout"):
        predict("next-token", "gd", GRAPH, readout="mean")


def test_one_input_of_equal_scores_may_start_anywhere():
    X = [[[1.0, 0.0], [0.5, 1.0], [0.5, -1.0]]]
    near = "start is large"
    one = predict("prompt", "gd", Tokens(X), head=[1.0, 0.0])
    assert holds(one, near)[0] is True and [p.name for p in one.unchecked] == [
        "the step is constant and small"
    ]
    two = predict("prompt", "gd", Tokens(X * 2), head=[1.0, 0.0])
    assert holds(two, "share one score")[0] is True and holds(two, near)[0] is None
    # The theorem on mirror descent is on near starts alone.
    assert holds(predict("prompt", "mirror:3", Tokens(X), head=[1.0, 0.0]), near)[0] is None


@pytest.mark.parametrize("optimizer", [*FACE_OPTIMIZERS, "path", "mirror:2", "nmirror:2"])
@pytest.mark.parametrize(
    ("weight", "prompt"), [("weight", "prompt"), ("joint-weight", "joint-prompt")]
)
def test_a_weight_with_one_query_is_a_prompt(optimizer, weight, prompt):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3, 4, 5)), [1, -1, 1]
    v = rng.standard_normal(5)
    bare = predict(prompt, optimizer, Tokens(X, labels=y), head=v)
    for z in (
        np.ones((3, 1)),
        np.tile([1.0, 0.0], (3, 1)),
        np.tile(rng.standard_normal(4), (3, 1)),
    ):
        limit = predict(weight, optimizer, Tokens(X, queries=z, labels=y), head=v)
        assert (limit.norm, limit.status, limit.word) == (bare.norm, bare.status, bare.word)
        assert [(p.name, p.holds) for p in limit.premises] == [
            (p.name, p.holds) for p in bare.premises
        ]
        assert limit.model == weight and "the weight is a prompt" in limit.statement
    other = predict(weight, optimizer, Tokens(X, queries=rng.standard_normal((3, 4))), head=v)
    assert "the weight is a prompt" not in other.statement
