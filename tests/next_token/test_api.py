"""attsvm.next_token is the door to sentences; attsvm.train and attsvm.outcome lead there too."""

import inspect

import numpy as np
import pytest

import attsvm
from attsvm import next_token
from attsvm.errors import BadTokens, Unsupported

LINES = [[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 2, 0]]
DATA = next_token.Sentences.of(LINES)


def test_every_listed_name_is_there_with_a_word_on_it():
    for name in next_token.__all__:
        thing = getattr(next_token, name)
        assert inspect.getdoc(thing), name
        assert thing.__module__.startswith("attsvm.next_token."), name
    assert dir(next_token) == sorted(next_token.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        next_token.nothing  # noqa: B018


def test_both_doors_train_alike():
    given = {"model": "joint-next-token", "collocations": True, "steps": 30, "lr": 0.2}
    one, other = attsvm.train(DATA, **given), next_token.train(DATA, **given)
    assert one.config == other.config
    np.testing.assert_array_equal(one.weights["W_kq"], other.weights["W_kq"])
    with pytest.raises(BadTokens, match="must be Sentences"):
        next_token.train(LINES)


def test_an_outcome_of_every_way_to_train():
    stages = attsvm.two_stages(DATA, steps=(400, 900))
    whole = attsvm.outcome(stages, DATA)
    assert whole.status == "optimal" and whole.realizability.realizable
    assert whole.limit.status == "proved" and whole.top_optimal == 1.0
    assert whole.excess == pytest.approx(whole.loss - whole.infimum, abs=1e-9)
    assert min(whole.correlation.values()) > 0.99
    assert 0.9 < min(whole.margin_share.values()) <= 1
    # The second stage with the first one's path, and with its end alone.
    for head in (stages.decoder, stages.W_ov):
        part = attsvm.outcome(stages.attention, DATA, head)
        assert part.infimum == whole.infimum and part.excess == whole.excess
        assert part.correlation["W_kq"] == whole.correlation["W_kq"]
    first = attsvm.outcome(stages.decoder, DATA)
    assert set(first.certificates) == {"W_ov"} and first.decoder_loss is None
    assert first.loss == whole.decoder_loss
    mass = attsvm.train(DATA, model="next-token", readout="mass", steps=300)
    assert set(attsvm.outcome(mass, DATA).certificates) == {"W_kq"}
    both = attsvm.train(DATA, model="joint-next-token", steps=300)
    assert attsvm.outcome(both, DATA, norm="max").certificates["W_kq"].pieces[0].norm.name == "max"


def premises(found):
    """(failing, unchecked) premises of a limit, a word of each."""
    words = {"sentences are": "realizable", "the embeddings": "orthonormal", "W_ov is": "staged"}
    words["each stage starts"] = "steady"
    return tuple(
        [next(word for start, word in words.items() if p.name.startswith(start)) for p in some]
        for some in (found.limit.failing, found.limit.unchecked)
    )


def test_a_limit_is_proved_where_its_premises_hold():
    stages = attsvm.two_stages(DATA, steps=(20, 20))
    whole = attsvm.outcome(stages, DATA)
    assert premises(whole) == ([], []) and whole.limit.established
    assert whole.limit.word == "proved"
    first = attsvm.outcome(stages.decoder, DATA)
    assert premises(first) == ([], []) and first.limit.established
    # A frozen W_ov may come from anywhere.
    frozen = attsvm.outcome(stages.attention, DATA, stages.W_ov)
    assert premises(frozen) == ([], ["staged"]) and not frozen.limit.established
    assert frozen.limit.word == "proved if: W_ov is trained first, and W_kq with it frozen"
    both = attsvm.outcome(attsvm.train(DATA, model="joint-next-token", steps=20), DATA)
    assert premises(both) == (["staged"], []) and not both.limit.established
    assert both.limit.word.startswith("does not apply: premise 'W_ov is trained first")
    # Without a decoder it is another theorem's limit.
    mass = attsvm.train(DATA, model="next-token", readout="mass", steps=20)
    limit = attsvm.outcome(mass, DATA).limit
    assert (limit.word, limit.references) == ("conjectured", ("li2024mechanics",))
    askew = attsvm.outcome(attsvm.two_stages(DATA, embedding="normal", steps=(20, 20)), DATA)
    assert premises(askew) == (["orthonormal"], [])
    torn = next_token.Sentences.of([*LINES, [0, 1, 0, 0]])
    assert not next_token.realizability(torn).realizable
    assert premises(attsvm.outcome(attsvm.two_stages(torn, steps=(20, 20)), torn))[0] == [
        "realizable"
    ]
    plain = attsvm.outcome(attsvm.two_stages(DATA, optimizer="gd", steps=(20, 20)), DATA)
    assert plain.limit.word == "conjectured" and not plain.limit.established


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"schedule": lambda t: 0.5**t}),
        ({}, {"schedule": "sqrt"}),
        ({}, {"init": {"W_kq": 30 * np.random.default_rng(1).standard_normal((3, 3))}}),
        ({"optimizer": "sign"}, {}),
        ({"schedule": "sqrt"}, {}),
        ({"init": "normal:1"}, {}),
        ({"options": {"ridge": 0.1}}, {}),
    ],
)
def test_a_limit_is_not_proved_for_other_steps_or_starts(first, second):
    """Summable steps stand still, far starts and sign descent end elsewhere."""
    head = attsvm.train(DATA, model="decoder", steps=20, **first)
    path = attsvm.train(DATA, model="next-token", head=head, steps=20, **second)
    found = attsvm.outcome(path, DATA, head)
    assert premises(found) == (["steady"], []) and not found.limit.established
    assert found.limit.word == (
        "does not apply: premise 'each stage starts at zero and takes normalized steps of one "
        "length' fails"
    )


def test_an_outcome_is_of_the_data_of_its_run():
    stages = attsvm.two_stages(DATA, steps=(20, 20))
    other = next_token.Sentences.of([*LINES, [2, 1, 2]])
    with pytest.raises(BadTokens, match="other sentences"):
        attsvm.outcome(stages, other)
    with pytest.raises(BadTokens, match="needs a decoder"):
        attsvm.outcome(stages.attention, DATA)
    tokens = attsvm.Tokens(np.eye(3)[None], labels=[1])
    for run in (stages, stages.decoder):
        with pytest.raises(BadTokens, match="Sentences"):
            attsvm.outcome(run, tokens)
    path = attsvm.train(tokens, head=[1.0, 0.0, 0.0], model="prompt", steps=5)
    with pytest.raises(Unsupported, match="trains on Tokens"):
        attsvm.outcome(path, DATA)
    with pytest.raises(Unsupported, match="embedding is an option for Sentences"):
        attsvm.outcome(path, tokens, embedding="normal")
    with pytest.raises(Unsupported, match="instance is an option for Tokens"):
        attsvm.outcome(stages, DATA, instance=1)
