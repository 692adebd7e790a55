"""A live torch model's head as a View."""

import numpy as np
import torch

from attsvm.torch import Attention, capture
from tests.tolerances import EXACTLY


def test_a_head_of_a_live_model_is_a_view():
    torch.manual_seed(0)
    model = torch.nn.MultiheadAttention(6, 2, batch_first=True).double()
    x = torch.randn(3, 5, 6, dtype=torch.float64)
    _, shares = model(x, x, x, average_attn_weights=False)
    captured = capture(model, (x, x, x), head=1, query="last")
    view = captured.view(number=2)
    assert (view.layer, view.head) == (2, 1)
    np.testing.assert_allclose(view.attention(), shares[:, 1, -1].detach(), rtol=EXACTLY)
    assert list(view.positions) == [4, 4, 4]
    assert view.texts[0] == ("0", "1", "2", "3", "4")


def test_tokens_may_be_named_by_their_numbers():
    torch.manual_seed(0)
    model = torch.nn.MultiheadAttention(6, 2, batch_first=True).double()
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    captured = capture(model, (x, x, x), query="first")
    view = captured.view(ids=[[7, 8, 9], [9, 8, 7]], positions=[0, 0])
    assert view.texts == (("7", "8", "9"), ("9", "8", "7"))
    np.testing.assert_array_equal(view.positions, [0, 0])


def test_a_model_with_one_matrix_is_a_view():
    torch.manual_seed(0)
    model = Attention([0.0, 1.0], shape=(2, 2))
    with torch.no_grad():
        model.W.copy_(torch.randn(2, 2))
    x, z = torch.randn(2, 3, 3, 2, dtype=torch.float64).unbind(0)
    captured = capture(model, (x, z[:, 0]), labels=[1, 1, 1])
    view = captured.view()
    np.testing.assert_allclose(view.W, captured.W, rtol=EXACTLY)
    logits = np.einsum("ntd,de,ne->nt", captured.tokens.keys, captured.W, captured.tokens.queries)
    np.testing.assert_allclose(view.logits(), logits, rtol=EXACTLY)
