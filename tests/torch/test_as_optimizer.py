"""as_optimizer: torch's rules are ours while gradients are floats; what is refused, and how."""

import inspect

import numpy as np
import pytest
import torch
from torch.optim import SGD, Adam

import attsvm
from attsvm.datasets import EXAMPLES
from attsvm.errors import Unsupported
from attsvm.torch import MirrorDescent, NormalizedGD, SteepestDescent, as_optimizer
from attsvm.training.optimizers import Optimizer
from attsvm.training.path import Path
from tests.cli.command import save
from tests.torch.lion import Lion, lion

a = EXAMPLES["sphere"](4, 5, 3, seed=1)
TOKENS = attsvm.Tokens(a["X"], queries=a["z"], labels=a["y"])
HEAD = a["v"]
FILE = Lion.__init__.__code__.co_filename


def gradient(step, x):
    """The gradient of a block (B, ...) as floats."""
    G = step.gradient.direction[x]
    return G * np.exp(step.gradient.log_scale[x]).reshape(-1, *(1,) * (G.ndim - 1))


def own(name, rule):
    """An optimizer of ours from rule(gradient, average) -> (direction, next average)."""

    def init(params):
        return {x: np.zeros_like(block) for x, block in params.items()}

    def move(step):
        new, state = {}, {}
        for x, block in step.params.items():
            D, state[x] = rule(gradient(step, x), step.state[x])
            new[x] = block - step.lr.reshape(-1, *(1,) * (block.ndim - 1)) * D
        return new, state

    return Optimizer(name, init, move)


PAIRS = {
    "Lion": (lion, own("lion", lambda g, m: (np.sign(0.9 * m + 0.1 * g), 0.99 * m + 0.01 * g))),
    "SGD": (as_optimizer(SGD), "gd"),
    "SGD, momentum": (
        as_optimizer(SGD, momentum=0.9),
        own("heavy ball", lambda g, m: (0.9 * m + g, 0.9 * m + g)),
    ),
    "Adam": (as_optimizer(Adam, eps=0.0), "adam"),
    "ours, ngd": (as_optimizer(NormalizedGD), "ngd"),
    "ours, mirror": (as_optimizer(MirrorDescent, p=1.5), "mirror:1.5"),
    "ours, sign": (as_optimizer(SteepestDescent, norm="max"), "sign"),
}


def apart(one, other):
    """The largest difference of any block of two paths at any record."""
    assert (one.steps == other.steps).all()
    return max(np.abs(block - other.weights[x]).max() for x, block in one.weights.items())


@pytest.mark.parametrize("model", ["weight", "factored"])
@pytest.mark.parametrize("name", PAIRS)
def test_rules_of_torch_are_ours(name, model):
    wrapped, mine = PAIRS[name]
    form = {"head": HEAD, "model": model, "lr": 0.02, "steps": 300}
    one = attsvm.train([TOKENS, TOKENS], optimizer=wrapped, **form)
    other = attsvm.train([TOKENS, TOKENS], optimizer=mine, **form)
    assert one.diverged < 0 and one.underflow is None
    assert apart(one, other) < 1e-12 * max(np.abs(x).max() for x in other.weights.values())


def test_the_step_size_is_its_own_unless_one_is_given():
    assert attsvm.train(TOKENS, head=HEAD, optimizer=lion, steps=3).config["lr"] == 0.01
    assert attsvm.train(TOKENS, head=HEAD, optimizer=lion, lr=0.3, steps=3).config["lr"] == 0.3
    assert as_optimizer(Adam).lr == 1e-3
    assert attsvm.train(TOKENS, head=HEAD, optimizer="ngd", steps=3).config["lr"] == 0.1
    both = attsvm.compare(TOKENS, optimizers=[lion, "ngd"], head=HEAD, steps=30)
    assert [run.lr for run in both.runs] == [0.01, 0.1]


def test_a_run_says_from_which_step_its_gradient_is_no_float():
    """Normalized descent passes 1e-308; the rule on floats stands still from there on."""
    tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]], labels=[1])
    form = {"model": "prompt", "head": [0.2, 0.7], "lr": 5.0, "steps": 400}
    exact = attsvm.train(tokens, optimizer="ngd", **form)
    floats = attsvm.train(tokens, optimizer=as_optimizer(NormalizedGD), **form)
    below = np.flatnonzero(floats.log_gradient[:, 0] < np.log(np.finfo(float).tiny))[0]
    assert floats.steps[below - 1] < floats.underflow <= floats.steps[below]
    assert exact.underflow is None
    said = " ".join(repr(floats).split())
    assert f"from step {floats.underflow} the gradient is below the floats" in said
    held = as_optimizer(NormalizedGD, normalized_gradient=True)
    whole = attsvm.train(tokens, optimizer=held, **form)
    assert whole.underflow is None
    assert apart(whole, exact) < 1e-9 * np.abs(exact.weights["p"]).max()
    assert apart(floats, exact) > 100.0


@pytest.mark.parametrize("kind", [Lion, Adam, SGD])
def test_a_saved_run_goes_on_bit_by_bit(kind, tmp_path):
    made = as_optimizer(kind, lr=0.05, **({"momentum": 0.9} if kind is SGD else {}))
    form = {"head": HEAD, "optimizer": made}
    attsvm.train(TOKENS, steps=40, **form).save(tmp_path / "half.npz")
    half = Path.load(tmp_path / "half.npz")
    ended = attsvm.train(TOKENS, steps=60, start=half, **form)
    whole = attsvm.train(TOKENS, steps=100, **form)
    assert apart(ended, whole) == 0.0
    for name, kept in whole.state.items():
        np.testing.assert_array_equal(ended.state[name], kept)


CLASSES = [
    kind
    for kind in vars(torch.optim).values()
    if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer)
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_class_of_torch_trains_or_is_refused_in_one_sentence(kind):
    try:
        made = as_optimizer(kind, lr=0.01)
        path = attsvm.train(TOKENS, head=HEAD, optimizer=made, steps=30)
    except Unsupported as error:
        assert "\n" not in str(error) and kind.__name__ in str(error)
        assert kind.__name__ in ("Optimizer", "LBFGS", "SparseAdam"), error
        return
    assert path.diverged < 0 and path.weights["W"][-1].any()


class Raises(SGD):
    def step(self, closure=None):
        raise ValueError("on purpose\nand more")


class Counts(SGD):
    """Keeps its count where nothing saves it."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, lr)
        self.count = 0

    def step(self, closure=None):
        self.count += 1
        return super().step(closure)


class Remembers(SGD):
    """Keeps a word, which is no number."""

    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            self.state[p]["said"] = "words"
        return super().step(closure)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: as_optimizer(torch.optim.LBFGS), "LBFGS needs a closure"),
        (lambda: as_optimizer(SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)), "takes a class"),
        (lambda: as_optimizer("adam"), "takes a class, such as torch.optim.Adam"),
        (lambda: as_optimizer(Adam, betas=(2.0, 0.9)), "Adam cannot be made: ValueError: Invalid"),
        (lambda: as_optimizer(Lion, beta=0.9), "Lion cannot be made: TypeError"),
        (lambda: as_optimizer(Lion, lr=-1.0), "lr is -1"),
        (lambda: as_optimizer(Raises), r"Raises fails in step\(\): ValueError: on purpose$"),
        (lambda: as_optimizer(Counts), "Counts keeps count outside of state and param_groups"),
        (lambda: as_optimizer(Remembers), "Remembers keeps W#said, which is not a number"),
        (lambda: as_optimizer(SGD, name="ngd"), "is named 'ngd', as a listed one"),
        (lambda: as_optimizer(Adam, capturable=True), "Adam fails in step"),
    ],
)
def test_what_cannot_be_wrapped_is_refused(make, said):
    with pytest.raises(Unsupported, match=said):
        attsvm.train(TOKENS, head=HEAD, optimizer=make(), steps=2)


def test_compare_measures_the_norm_of_an_unknown_rule():
    """Normalized descent under another name is found nearest to the Frobenius norm."""
    unknown = as_optimizer(NormalizedGD, lr=0.5, name="mine")
    found = attsvm.compare(TOKENS, optimizers=[unknown, lion, "sign"], head=HEAD, steps=3000)
    mine, _, sign = found.runs
    assert mine.norm is None and mine.nearest == "frobenius" and "ngd" in mine.alike
    assert mine.trends["frobenius"] == min(mine.trends.values()) < -0.5
    assert sign.nearest == sign.norm == "max"
    frame = found.to_frame()
    assert list(frame.nearest)[::2] == ["frobenius", "max"]
    said = " ".join(repr(found).split())
    assert "measured, not proved" in said and "frobenius (gd)" in said
    figure = found.plot()
    titles = [ax.get_title(loc="left") or ax.get_title() for ax in figure.axes]
    assert titles == [
        f"{norm} norm" for norm in found.norms
    ]  # none has one direction, or a theorem
    (legend,) = figure.legends
    assert legend.get_title().get_text() == "→ theory; ~ nearest: measured, not proved"
    assert any("mine" in text.get_text() and "~ frobenius" in text.get_text()
               for text in legend.texts)  # fmt: skip


def test_compare_goes_on_where_one_is_refused():
    """torch's Muon moves matrices alone."""
    prompt = attsvm.Tokens(a["X"], labels=a["y"])
    muon = as_optimizer(torch.optim.Muon)
    found = attsvm.compare(prompt, optimizers=[muon, "ngd"], models=["prompt"], head=HEAD, steps=20)
    (refused,) = found.refused
    assert refused.optimizer == "Muon" and "Muon only supports 2D" in refused.refused
    assert "refused: " in repr(found)


def test_the_command_line_takes_a_file(run, tmp_path):
    file = save(tmp_path / "tokens.npz", X=a["X"], z=a["z"], y=a["y"], v=a["v"])
    done = run("train", file, "--optimizer", f"{FILE}:lion", "--steps", 50, "--json")
    assert done.code == 0 and done.report["underflow"] is None
    several = ("--optimizer", f"{FILE}:Lion", "--optimizer", "sign", "--steps", 50, "--json")
    report = run("train", file, *several).report
    assert [(one["optimizer"], one["lr"]) for one in report["runs"]] == [
        ("Lion", 0.001),
        ("sign", 0.1),
    ]
    small = ("--option", "weight_decay=0.1", "--lr", 0.2, "--steps", 5, "--json")
    assert run("train", file, "--optimizer", f"{FILE}:Lion", *small).code == 0
    tmp_path.joinpath("bad.py").write_text("import torch\nLBFGS = torch.optim.LBFGS\n")
    done = run("train", file, "--optimizer", "bad.py:LBFGS")
    assert done.code == 2 and done.err.count("\n") == 1 and "needs a closure" in done.err
