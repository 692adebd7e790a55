"""A family from outside the package goes wherever a listed one goes, and its laws are tried."""

import json
from dataclasses import replace

import numpy as np
import pytest

import attsvm
from attsvm.inspection import capture, load
from attsvm.inspection.families.bert import read_bert
from attsvm.inspection.pieces import LinearLayer
from attsvm.inspection.transformer import Layer
from tests.inspection.tiny import write

pytest.importorskip("tokenizers")
pytest.importorskip("safetensors")


@pytest.fixture
def folder(tmp_path):
    """A checkpoint of a family that no one lists."""
    folder = write(tmp_path, "bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "mine"}))
    return folder


def read_doubled(config, weights):
    """BERT with logits twice as large."""
    body = read_bert(config, weights)
    layers = tuple(replace(layer, scale=2 * layer.scale) for layer in body.layers)
    return replace(body, layers=layers, family="mine")


def test_a_family_from_outside_is_read(folder, tmp_path):
    mine = capture(load(folder, family=read_doubled), ["a b c"], layer=0, head=1, at=1)
    theirs = capture(load(folder, family=read_bert), ["a b c"], layer=0, head=1, at=1)
    np.testing.assert_allclose(mine.logits(), 2 * theirs.logits())
    with pytest.raises(attsvm.Unsupported, match="model_type is 'mine'"):
        load(folder)


def wrong_type(config, weights):
    return {}


def wrong_groups(config, weights):
    return replace(read_bert(config, weights), heads=3, groups=2)


def wrong_shape(config, weights):
    body = read_bert(config, weights)
    short = LinearLayer(np.zeros((7, 8), dtype=np.float32))
    return replace(body, layers=(replace(body.layers[0], out=short),))


def not_finite(config, weights):
    body = read_bert(config, weights)
    loud = LinearLayer(np.full((8, 8), np.inf, dtype=np.float32))
    layers: tuple[Layer, ...] = (replace(body.layers[0], out=loud, after=None, mlp_after=None),)
    return replace(body, layers=layers)


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (wrong_type, "wrong_type returns dict; a family returns a Transformer"),
        (wrong_groups, "3 attention heads in 2 groups"),
        (wrong_shape, "wrong_shape breaks the shapes of a Transformer"),
        (not_finite, "layer 0 does not keep the stream"),
    ],
)
def test_a_broken_law_is_named(family, message, folder):
    with pytest.raises(attsvm.Unsupported, match=message), np.errstate(all="ignore"):
        load(folder, family=family)
