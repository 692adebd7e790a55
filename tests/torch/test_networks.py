"""The small networks: what they give, what padding changes, what Monitor and capture see."""

from dataclasses import replace

import pytest
import torch

from attsvm.errors import AttsvmError
from attsvm.torch import Monitor, TrainConfig, capture
from attsvm.torch.networks import ImageClassifier, TextClassifier

SIZES = TrainConfig(width=12, layers=2, heads=3, hidden=8, length=6, patch=4)


def text(sizes=SIZES):
    torch.manual_seed(0)
    return TextClassifier(sizes, 3, 20).double()


def image():
    torch.manual_seed(0)
    return ImageClassifier(SIZES, 5, (8, 12)).double()


BATCH = torch.tensor([[2, 5, 6, 7, 0, 0], [2, 9, 10, 11, 12, 13], [2, 0, 0, 0, 0, 0]])
IMAGES = torch.linspace(0, 1, 3 * 96, dtype=torch.float64).reshape(3, 8, 12)


def test_attention_is_that_of_the_forward():
    """The head on what the maps of attention make of the values is what forward gives."""
    for net, batch in ((text(), BATCH), (image(), IMAGES)):
        maps = net.attention(batch)
        x, _ = net.tokens(batch)
        assert len(maps) == 2 and maps[0].shape == (3, 3, x.shape[1], x.shape[1])
        for A, block in zip(maps, net.blocks, strict=True):
            assert torch.allclose(A.sum(-1), torch.ones_like(A[..., 0]))
            V = block.attend.value(block.norm1(x)).unflatten(2, (3, 4)).transpose(1, 2)
            x = x + block.attend.out((A @ V).transpose(1, 2).flatten(2))
            x = x + block.down(torch.nn.functional.gelu(block.up(block.norm2(x))))
        assert torch.allclose(net(batch), net.head(net.norm(x[:, 0])), atol=1e-12)


def test_padding_changes_nothing():
    net = text()
    assert torch.allclose(net(BATCH)[0], net(BATCH[:1, :4])[0], atol=1e-12)
    assert (net.attention(BATCH)[1][0, :, :, 4:] == 0).all()
    net(BATCH).sum().backward()
    assert (net.words.weight.grad[0] == 0).all()
    assert torch.isfinite(net(torch.zeros(2, 4, dtype=torch.int64))).all()


def test_patches_are_squares_row_by_row():
    net = image()
    cut = torch.stack(
        [IMAGES[0, r : r + 4, c : c + 4].flatten() for r in (0, 4) for c in (0, 4, 8)]
    )
    x, mask = net.tokens(IMAGES)
    assert mask is None
    assert torch.allclose(x[0, 1:], net.patches(cut) + net.places.weight[1:])


def test_parts_by_name():
    net = text()
    assert [len(own) for own in net.projections.values()] == [2, 2, 2]
    assert net.projections["Q"][1] is net.blocks[1].attend.query.weight
    assert {id(x) for x in net.embeddings} == {id(net.words.weight), id(net.places.weight)}
    assert len(image().embeddings) == 4  # patches with a bias, places, cls


def test_the_monitor_sees_every_head():
    net = text()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with Monitor(net) as monitor:
        net(BATCH).sum().backward()
        optimizer.step()
        monitor.step()
    assert len({(row.layer, row.head) for row in monitor.rows}) == 6
    assert all(row.frobenius > 0 for row in monitor.rows)


def test_a_head_is_captured():
    net = text()
    head = capture(net, BATCH[1:2], layer="blocks.0.attend", head=1, query=0)
    logits = head.tokens.X[0] @ head.W @ head.tokens.queries[0]
    found = net.attention(BATCH[1:2])[0][0, 1, 0]
    assert torch.allclose(torch.softmax(torch.as_tensor(logits), 0), found, atol=1e-9)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"width": 10}, "multiple of 3 attention heads"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_sizes_that_cannot_be(sizes, said):
    with pytest.raises(AttsvmError, match=said):
        text(replace(SIZES, **sizes))


def test_patches_divide_the_images():
    with pytest.raises(AttsvmError, match="must divide images of 8 × 9"):
        ImageClassifier(SIZES, 2, (8, 9))
