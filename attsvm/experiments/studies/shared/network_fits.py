"""One training run of a small network on real data, as the arrays that claims keep of it.

torch is loaded when a run begins: the claims can be listed, judged by their numbers and drawn
without it. A run is on one thread, so that it is the same bits again on the same processor.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.datasets.labelled import Labelled, Vocabulary, words_of
from attsvm.experiments.studies.claim import Config, Result

if TYPE_CHECKING:
    from attsvm.torch.fitting import Moment
    from attsvm.torch.networks import Network

# The columns of `records`.
COLUMNS = (
    *("step", "epoch", "loss", "train_accuracy", "valid_accuracy", "test_accuracy"),
    *("norm_K", "norm_Q", "norm_V"),
)
LETTERS = ("K", "Q", "V")
# Of the entries of new embeddings, whatever that of the trainer is.
SPREAD = 0.1
# Sentences of our own, each with the word that a reader would name.
SENTENCES = (
    ("a wonderful film about two brothers and their farm", "wonderful"),
    ("the second half is dull and it never ends", "dull"),
    ("we laughed a lot because the script is funny", "funny"),
    ("what a boring story about a man in a car", "boring"),
    ("the music is beautiful and the pictures are too", "beautiful"),
    ("a bad idea made into a long movie", "bad"),
    ("it is the best thing that she has made so far", "best"),
    ("nobody in this family drama is worth our time , it fails", "fails"),
)


def fit_arrays(plan: Config) -> Result:
    """What a claim keeps of one run; plan: {fit: the fields of a TrainConfig, look, matched}.

    records (R, 9), nan after an early stop; right (n,): which test inputs are right at the record
    that validation chooses; collapsed. With look: K, Q, V (layers, width, width) at the end, and
    under `matched.` at the first record with this training accuracy, nan where it is not reached.
    Of texts also attention (n, L), of the first token in the last layer, mean over heads, on the
    first `look` test texts and on SENTENCES; of images spread (R, 2) and size (R,), and maps
    (R, look, patches): see `_Images`.
    """
    from attsvm.torch import config_of, fit

    config = config_of(plan["fit"]["task"], {"spread": SPREAD, **plan["fit"]})
    data = data_at(plan)
    with one_thread():
        watcher = (_Texts if config.task == "text" else _Images)(plan, data)
        made = fit(config, data, watch=watcher.see)
        watcher.end(made.network)
    rows = np.full((config.epochs * config.records + 1, len(COLUMNS)), np.nan)
    rows[: len(made.records)] = np.array(made.records, dtype=np.float64)
    out: Result = {"records": rows, "collapsed": np.array(float(made.collapsed))}
    return {**out, **watcher.kept}


@contextmanager
def one_thread() -> Iterator[None]:
    """A context in which torch has one thread."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def data_at(plan: Config) -> Labelled:
    """The data of a run."""
    fit = plan["fit"]
    counts = tuple(fit[f"{part}_count"] for part in ("train", "valid", "test"))
    return _data(fit["task"], fit.get("source", ""), fit.get("length", 0), counts)


@lru_cache(maxsize=2)
def _data(task: str, source: str, length: int, counts: Any) -> Labelled:
    from attsvm.datasets import LABELLED

    if task == "text":
        return LABELLED["reviews"](counts, source=source, words=length)
    return LABELLED["fashion"](counts)


class _Watcher:
    """Looks at a network in training and keeps what is asked for."""

    def __init__(self, plan: Config, data: Labelled) -> None:
        import torch

        self.plan, self.data = plan, data
        self.kept: Result = {}
        self.best = -1.0
        self.torch = torch
        self.matched = False
        self.look = int(plan["look"])
        self.y = torch.from_numpy(np.asarray(data.test.labels))

    def see(self, moment: Moment) -> None:
        """At a record: the test inputs that are right, where validation is best so far."""
        if moment.step == 0 and moment.record is None:
            self.begin(moment.network)
        if moment.record is None:
            return
        moment.network.eval()
        if moment.record.valid_accuracy > self.best:
            self.best = moment.record.valid_accuracy
            self.kept["right"] = self._right(moment.network)
        reached = moment.record.train_accuracy >= self.plan["matched"]
        if self.look and reached and not self.matched:
            self.matched = True
            self.kept |= {f"matched.{k}": a for k, a in self.looked(moment.network).items()}
        self.record(moment.network)

    def end(self, network: Network) -> None:
        """Keep what the trained network is asked for."""
        if self.look:
            found = self.looked(network)
            self.kept |= found
            if not self.matched:
                self.kept |= {f"matched.{k}": np.full_like(a, np.nan) for k, a in found.items()}

    def _right(self, network: Network) -> Floats:
        with self.torch.no_grad():
            parts = [network(x).argmax(dim=1) for x in self.torch.split(self.inputs(), 256)]
        return (self.torch.cat(parts) == self.y).double().numpy()

    def looked(self, network: Network) -> Result:
        """The weights by letter."""
        return {
            letter: np.stack([w.detach().float().numpy() for w in own]).astype(np.float32)
            for letter, own in network.projections.items()
        }

    def inputs(self) -> Any:
        """The test inputs as the network takes them."""
        raise NotImplementedError

    def begin(self, network: Network) -> None:
        """Before the first step."""

    def record(self, network: Network) -> None:
        """At every record."""


class _Texts(_Watcher):
    """Looks at the attention of the first token, in the last layer, mean over heads."""

    def __init__(self, plan: Config, data: Labelled) -> None:
        super().__init__(plan, data)
        fit = plan["fit"]
        known = Vocabulary.of(data.train.inputs, fit["vocabulary"])
        self.x = self.torch.from_numpy(known.encode(data.test.inputs, length=fit["length"]))
        own = [words_of(text) for text, _ in SENTENCES]
        self.own = self.torch.from_numpy(known.encode(own, length=fit["length"]))

    def inputs(self) -> Any:
        return self.x

    def looked(self, network: Network) -> Result:
        with self.torch.no_grad():
            maps = [
                network.attention(x)[-1][:, :, 0].mean(dim=1).numpy().astype(np.float32)
                for x in (self.x[: self.look], self.own)
            ]
        return {**super().looked(network), "attention": maps[0], "sentences": maps[1]}


class _Images(_Watcher):
    """Looks at attention over training: spread, size and maps at every record.

    spread: 1/(T Σ s²), the share of the T tokens that a row s of attention is spread over (that is
    ‖s‖₁²/‖s‖₂² by T): the mean over the first `look` test images, all rows, heads and layers; then
    that of the first token's row in the last layer. size: ‖K_hᵀ Q_h‖ over all heads and layers.
    maps: that row over the patches, mean over heads.
    """

    def __init__(self, plan: Config, data: Labelled) -> None:
        super().__init__(plan, data)
        self.x = self.torch.from_numpy(np.array(data.test.inputs, dtype=np.float32))
        fit = plan["fit"]
        R, patches = fit["epochs"] * fit.get("records", 1) + 1, (28 // fit["patch"]) ** 2
        if self.look:
            self.kept["spread"] = np.full((R, 2), np.nan)
            self.kept["size"] = np.full(R, np.nan)
            self.kept["maps"] = np.full((R, plan["images"], patches), np.nan)
        self.place = 0

    def inputs(self) -> Any:
        return self.x

    def begin(self, network: Network) -> None:
        network.eval()
        self.record(network)
        network.train()

    def record(self, network: Network) -> None:
        if not self.look:
            return
        with self.torch.no_grad():
            maps = [a.double() for a in network.attention(self.x[: self.look])]
            spread = [1 / (a.shape[-1] * (a**2).sum(dim=-1)) for a in maps]
            whole = self.torch.stack(spread).mean()
            self.kept["spread"][self.place] = float(whole), float(spread[-1][:, :, 0].mean())
            self.kept["size"][self.place] = qk_size(network)
            shown = maps[-1][: self.plan["images"], :, 0, 1:].mean(dim=1)
            self.kept["maps"][self.place] = shown.numpy()
        self.place += 1


def qk_size(network: Network) -> float:
    """‖W‖ over all heads and layers, W = K_hᵀ Q_h the matrix that a head's logits are made of."""
    total = 0.0
    for block in network.blocks:
        attend: Any = block.attend
        K, Q = (w.weight.detach().double().unflatten(0, (attend.heads, -1))
                for w in (attend.key, attend.query))  # fmt: skip
        total += float(((K.transpose(1, 2) @ Q) ** 2).sum())
    return total**0.5
