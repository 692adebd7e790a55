"""Malformed calls: the library's own errors, which name the argument and never print an array."""

from __future__ import annotations

import numpy as np
import pytest

import attsvm
from attsvm.errors import AttsvmError
from tests.contracts.malformed import bad_values, calls, drawn, quiet, tried
from tests.contracts.results import path, planar, sentences

# Refused although every argument is right: no file of the plan's data, and no TensorBoard.
ELSEWHERE = {"attsvm.torch.load_data", "attsvm.inspect"}  # the second needs a model on file


def test_the_calls_that_are_spoiled_work():
    with quiet():
        for call in calls():
            if call.name not in ELSEWHERE:
                wrong = tried(call, {}, right=True)
                assert not wrong, f"{call.name}: {wrong}"
    assert len({call.name for call in calls()}) > 120


def test_malformed_calls_end_in_an_error_of_the_library():
    with quiet():
        for call, name, value in drawn(400, seed=25):
            wrong = tried(call, {name: bad_values()[value]})
            assert not wrong, f"{call.name}({name}={value}): {wrong}"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: attsvm.Problem.of(path(), [0]), "tokens must be Tokens, this is a Path"),
        (lambda: attsvm.solve_many([planar()[0]]), r"problems\[0\] must be a Problem, this is T"),
        (lambda: attsvm.local_optima(sentences(), [1.0]), "tokens must be Tokens, this is Sen"),
        (lambda: attsvm.next_token.orders(planar()[0]), "sentences must be Sentences, this is Tok"),
        (lambda: attsvm.train(*planar()[:1], head=[1.0], start=3), "start must be a Path, this is"),
        (lambda: attsvm.train(planar()[0], head=[1.0], stop=3), "stop must be a function, this"),
        (lambda: attsvm.solve(attsvm.Problem.of(planar()[0], [0] * 3), 10**5000), "this is a who"),
        (lambda: attsvm.norm_of(np.eye(9)), r"this is an array \(9, 9\) of float64"),
        (lambda: attsvm.Path.load(3), "file must be the path of a file, this is 3"),
    ],
)
def test_the_message_names_the_argument_and_what_was_given(call, said):
    with pytest.raises(AttsvmError, match=said):
        call()
