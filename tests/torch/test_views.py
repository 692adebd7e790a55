"""A live torch model's head as a View."""

import numpy as np
import torch

from attsvm.lens import view_of
from attsvm.torch import capture
from tests.tolerances import EXACTLY


def test_a_head_of_a_live_model_is_a_view():
    torch.manual_seed(0)
    model = torch.nn.MultiheadAttention(6, 2, batch_first=True).double()
    x = torch.randn(3, 5, 6, dtype=torch.float64)
    _, shares = model(x, x, x, average_attn_weights=False)
    captured = capture(model, (x, x, x), head=1, query="last")
    view = view_of(captured, layer=2)
    assert (view.layer, view.head) == (2, 1)
    np.testing.assert_allclose(view.attention(), shares[:, 1, -1].detach(), rtol=EXACTLY)
    assert list(view.positions) == [4, 4, 4]
    assert view.texts[0] == ("0", "1", "2", "3", "4")


def test_tokens_may_be_named_by_their_numbers():
    torch.manual_seed(0)
    model = torch.nn.MultiheadAttention(6, 2, batch_first=True).double()
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    captured = capture(model, (x, x, x), query="first")
    view = view_of(captured, ids=[[7, 8, 9], [9, 8, 7]], positions=[0, 0])
    assert view.texts == (("7", "8", "9"), ("9", "8", "7"))
    np.testing.assert_array_equal(view.positions, [0, 0])
