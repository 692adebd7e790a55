"""What a training run on sentences is reported, saved and drawn as."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from rich.table import Table

from attsvm.cli.parts import summary
from attsvm.ground.arrays import Floats
from attsvm.ground.files import write_arrays
from attsvm.language.contexts import Contexts
from attsvm.language.embedding import orthonormal
from attsvm.language.finite import FinitePart, finite_part
from attsvm.language.floor import excess, floors
from attsvm.language.order import Order
from attsvm.language.problems import Columns
from attsvm.language.realizable import Realizability
from attsvm.language.sentences import Sentences
from attsvm.rules.steps.scaled import length
from attsvm.theory.measures import bregman, correlation
from attsvm.training.path import Path

# Numbers in the largest array of one evaluation; sentences are taken in parts of this size.
_PART = 1 << 22


@dataclass(frozen=True, eq=False)
class SentenceRun:
    """What was trained, and on what; `attention` is None for the decoder alone, and `decoder` for
    the readout mass. The two are one path for joint-next-token."""

    data: Sentences
    E: Floats
    model: str
    decoder: Path | None
    attention: Path | None
    uniform: bool
    mass: bool

    @property
    def contexts(self) -> Contexts:
        """The arrays of the sentences, with the weights of the run."""
        share = np.full(self.data.size, 1 / max(self.data.size, 1)) if self.uniform else None
        return Contexts.of(self.data, self.E, weights=share)

    @property
    def ends(self) -> dict[str, Floats]:
        """The matrices at the end, by name."""
        out = {}
        if self.attention is not None:
            out["W_kq"] = self.attention.weights["W_kq"][-1, 0]
        if self.decoder is not None:
            out["W_ov"] = self.decoder.weights["W_ov"][-1, 0]
        return out


def describe_run(
    run: SentenceRun,
    problems: Mapping[str, Columns],
    every: Mapping[int, Order],
    found: Realizability,
) -> dict[str, Any]:
    """What a report of a run holds; what is not known is None."""
    states = {best.status for best in problems.values()}
    finite = _finite(run, every, found)
    loss, floor, above = _losses(run, found, finite, known="inseparable" not in states)
    paths = {"W_kq": run.attention, "W_ov": run.decoder}
    ends = run.ends
    shares = {"W_kq": _attention_share(run, problems, every, ends),
              "W_ov": _decoder_share(run, problems, ends)}  # fmt: skip
    away = {name: W - finite.W if name == "W_kq" and finite else W for name, W in ends.items()}
    return {
        "status": next((s for s in ("inseparable", "stalled") if s in states), "optimal"),
        "model": run.model,
        "realizable": found.realizable,
        "faults": found.counts,
        "sentences": run.data.size,
        "vocabulary": run.data.vocabulary,
        "dimension": int(run.E.shape[1]),
        "loss": summary.number(loss),
        "floor": None if floor is None else summary.number(floor),
        "excess": None if above is None else summary.number(above),
        "decoder_loss": _decoder_loss(run),
        "norm": {name: summary.number(length(W[None])[0]) for name, W in ends.items()},
        "correlation": {
            name: summary.number(float(correlation(away[name], best.W)))
            for name, best in problems.items()
        },
        "margin_share": {name: shares[name] for name in problems},
        "certificates": {
            name: {
                "status": best.status, "norm": best.pieces[0].norm.name if best.pieces else None,
                "lower": summary.number(best.lower), "upper": summary.number(best.upper),
                "gap": summary.number(best.gap), "message": message(best),
            }
            for name, best in problems.items()
        },
        "top_optimal": _top_optimal(run),
        "steps": {name: int(path.steps[-1]) for name, path in paths.items() if path is not None},
        "diverged": {name: path.diverged for name, path in paths.items() if path is not None},
    }  # fmt: skip


def message(best: Columns) -> str:
    """One sentence on what is proved, in the norm of the problem."""
    return best.pieces[0].message if best.times == (1,) else best.message


def _decoder_loss(run: SentenceRun) -> float | None:
    """L_0 at the end of a first stage of its own."""
    if run.decoder is None or run.attention in (None, run.decoder):
        return None
    return summary.number(float(run.decoder.loss[-1, 0]))


def _finite(
    run: SentenceRun, every: Mapping[int, Order], found: Realizability
) -> FinitePart | None:
    """The finite part that the run tends to beside its direction, where it is known."""
    known = run.mass and orthonormal(run.E) and not run.uniform
    odd = any(found.counts[kind] for kind in ("no-optimal", "several-optimal"))
    if found.realizable or not known or odd or run.E.shape[0] != run.E.shape[1]:
        return None
    return finite_part(run.data, every)


def _losses(
    run: SentenceRun, found: Realizability, finite: FinitePart | None, *, known: bool
) -> tuple[float, float | None, float | None]:
    """(the loss at the end, its infimum, how far it is above it): None where it is not known.

    Over a frozen decoder the infimum is that of attention alone. known: it is, unless a problem
    has no solution, as where the embedding has too few dimensions to part the tokens.
    """
    path = run.decoder if run.attention is None else run.attention
    loss = float("nan") if path is None else float(path.loss[-1, 0])
    if not known:
        return loss, None, None
    if run.attention is None:
        return loss, 0.0, loss  # one follower a token: L_0 goes to 0
    if finite is not None:
        return loss, finite.floor, loss - finite.floor
    if not found.realizable:
        return loss, None, None
    if run.mass or run.decoder is run.attention:
        return loss, 0.0, loss
    V, W = run.E @ run.ends["W_ov"].T, run.ends["W_kq"]
    floor, best = 0.0, True
    for part in _parts(run.contexts):
        least, lowest = floors(part, V)
        floor += float(part.weights @ least)
        best = best and bool(lowest.all())
    if not best:  # a decoder that mixes tokens: another attention is better than the optimal token
        return loss, None, None
    return loss, floor, sum(excess(part, V, W) for part in _parts(run.contexts))


def _parts(contexts: Contexts) -> Iterator[Contexts]:
    """The contexts in parts, so that an array (S, K, N) of each is not large."""
    S, K = contexts.tokens.shape
    rows = max(_PART // max(K * contexts.vocabulary, 1), 1)
    for start in range(0, S, rows):
        here = slice(start, start + rows)
        names = ("tokens", "log_counts", "queries", "labels", "weights", "slot", "known", "right")
        yield replace(contexts, **{name: getattr(contexts, name)[here] for name in names})


def _top_optimal(run: SentenceRun) -> float | None:
    """The share of the sentences whose most attended token is optimal; of a decoder alone, the
    share of collocations whose follower has the largest output."""
    if run.attention is not None:
        top = run.attention.top[-1, 0]
        contexts = Contexts.of(run.data, run.E)
        return summary.number(float(contexts.weights @ contexts.right[np.arange(len(top)), top]))
    if run.decoder is None:
        return None
    follows = run.data.follows[run.data.follows >= 0]
    return summary.number(float((run.decoder.top[-1, 0] == follows).mean()))


def _attention_share(
    run: SentenceRun,
    problems: Mapping[str, Columns],
    every: Mapping[int, Order],
    ends: Mapping[str, Floats],
) -> float | None:
    """The least margin of W_kq over its norm, as a share of the best; None with ties."""
    if "W_kq" not in ends or not all(order.acyclic for order in every.values()):
        return None
    U = run.E @ ends["W_kq"] @ run.E.T
    margins = [
        (U[order.tokens[hi], order.query] - U[order.tokens[lo], order.query]).min()
        for order in every.values()
        for hi, lo in [order.covers]
        if len(hi)
    ]
    return _share(problems["W_kq"], ends["W_kq"], margins)


def _decoder_share(
    run: SentenceRun, problems: Mapping[str, Columns], ends: Mapping[str, Floats]
) -> float | None:
    """The least margin of W_ov over its norm, as a share of the best."""
    if "W_ov" not in ends:
        return None
    tokens = np.flatnonzero(run.data.follows >= 0)
    V, after = run.E[tokens] @ ends["W_ov"].T, run.data.follows[tokens]
    rows = np.arange(len(tokens))
    own = V[rows, after]
    V[rows, after] = -np.inf
    return _share(problems["W_ov"], ends["W_ov"], list(own - V.max(axis=1)))


def _share(best: Columns, W: Floats, margins: list[Any]) -> float | None:
    if best.status == "inseparable" or not best.pieces or not margins or not np.any(W):
        return None
    size = float(best.pieces[0].norm.value(W))
    return summary.number(float(np.clip(min(margins) * best.lower / size, 0.0, 1.0)))


def save_run(run: SentenceRun, file: FilePath, *, force: bool) -> None:
    """Write the run as one .npz file: the last stage's path, which `Path.load` reads, the arrays of
    the first stage's as decoder.NAME, and E and W_ov."""
    last = run.decoder if run.attention is None else run.attention
    arrays: dict[str, Any] = {"E": run.E}
    for path, name in ((last, ""), (run.decoder, "decoder.")):
        if path is not None and (path is last) == (not name):
            arrays |= {f"{name}{key}": array for key, array in path.arrays().items()}
    write_arrays(file, arrays | {k: W for k, W in run.ends.items() if k == "W_ov"}, force=force)


def draw_run(
    run: SentenceRun, problems: Mapping[str, Columns], floor: float | None, file: FilePath
) -> None:
    """Draw loss, direction and norm, a row of panels for each matrix."""
    from attsvm.figures.stages import Curves, Row, draw_stages

    rows = []
    for name, path in (("W_ov", run.decoder), ("W_kq", run.attention)):
        if path is None:
            continue
        W = path.weights[name][:, 0]
        with np.errstate(all="ignore"):
            apart = np.asarray(bregman(W, problems[name].W, 2.0))
            size = np.linalg.norm(W, axis=(1, 2))
        above, said = path.loss[:, 0], "loss"
        if name == "W_kq" and floor is not None and path is not run.decoder:
            above, said = _above(run, path, floor), "L − L⋆"
        curves = Curves(path.steps, above[:, None], apart[:, None], size[:, None])
        rows.append(Row(name, said, (curves,)))
    paths = [path for path in (run.decoder, run.attention) if path is not None]
    steps = " and ".join(dict.fromkeys(f"{int(path.steps[-1]):,}" for path in paths))
    draw_stages(rows, f"{run.model}, {paths[-1].config['rule']}: {steps} steps", file)


def _above(run: SentenceRun, path: Path, floor: float) -> Floats:
    """L − L⋆ at every record; by subtraction where exact sums would take long."""
    W = path.weights["W_kq"][:, 0]
    if floor == 0 or run.decoder is None or run.data.size * run.data.vocabulary > _PART:
        return path.loss[:, 0] - floor
    V, contexts = run.E @ run.ends["W_ov"].T, run.contexts
    return np.array([excess(contexts, V, one) for one in W])


def run_table(report: dict[str, Any], title: str) -> Table:
    """The report for a reader."""
    table = Table(title=title, show_header=False)
    faults = ", ".join(f"{n} {kind}" for kind, n in report["faults"].items() if n)
    table.add_row("realizable", "yes" if report["realizable"] else f"no: {faults}")
    for key in ("loss", "floor", "excess", "decoder_loss", "top_optimal"):
        if report[key] is not None:
            table.add_row(key.replace("_", " "), f"{report[key]:.8g}")
    for name, best in report["certificates"].items():
        for key in ("steps", "norm", "correlation", "margin_share"):
            value = report[key][name]
            if value is not None:
                shown = f"{value:.8g}" if isinstance(value, float) else str(value)
                table.add_row(f"{name} {key.replace('_', ' ')}", shown)
        table.add_row(f"{name} certificate", best["message"])
    seen = report["unseen"]
    if seen is not None:
        table.add_row(
            "unseen sentences",
            f"{seen['sentences']}: {seen['wide']} have a gap of {seen['gap']:g} or more, "
            f"{seen['agreed']} of these are answered as the solution says; {seen['ties']} are ties",
        )
    table.add_row("seconds", f"{report['seconds']:.3g}")
    return table
