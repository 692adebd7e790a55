"""A run of the library beside the same run in many digits, and what the run does by itself."""

from __future__ import annotations

import numpy as np

from attsvm import Path, Sentences, Tokens, train
from tests.training.digits import Setting, Training, run
from tests.training.finding import Finding
from tests.training.sentence_digits import SentenceSetting

# The optimizers that weigh small and large alike.
OPTIMIZERS = ("spectral", "muon", "sign", "signum", "adam")
# The error asked for, unless the run's own conditioning is worse by this factor or less.
ASKED, ROOM = 1e-9, 100.0
# The last setting and its run in many digits.
_LAST: list[tuple[Training, tuple[dict[str, np.ndarray], int]]] = []


def library_run(s: Training) -> Path:
    """The same run by the library."""
    how = {
        "model": s.model, "optimizer": s.optimizer, "lr": s.lr, "steps": s.steps, "init": s.start,
           "options": dict(s.options)}  # fmt: skip
    if isinstance(s, SentenceSetting):
        mass = s.model == "next-token" and s.head is None
        data = Sentences.of(s.lines, vocabulary=len(s.E))
        return train(
            data, head=s.head, embedding=s.E, readout="mass" if mass else "softmax",
            collocations=s.pairs, **how,
        )  # fmt: skip
    assert isinstance(s, Setting)
    queries = {} if "p" in s.start else {"queries": s.z}
    tokens = Tokens(s.X, labels=s.y, **queries)
    width = next((s.start[name].shape[1] for name in ("K", "V") if name in s.start), None)
    return train(tokens, head="relu" if s.relu else s.v, width=width, loss=s.loss, **how)


def apart(path: dict[str, np.ndarray], exact: dict[str, np.ndarray]) -> float:
    """The largest error of a block's entry along two runs, as a share of its largest entry then."""
    worst = 0.0
    for name, rows in exact.items():
        axes = tuple(range(1, rows.ndim))
        error = np.abs(path[name] - rows).max(axis=axes)
        worst = max(worst, float((error / np.abs(rows).max(axis=axes)).max()))
    return worst


def digits_run(s: Training) -> tuple[dict[str, np.ndarray], int]:
    """The run in many digits, kept while the same setting is asked again."""
    if not _LAST or _LAST[0][0] is not s:
        _LAST[:] = [(s, run(s))]
    return _LAST[0][1]


def compared(s: Training) -> tuple[float, int, float]:
    """(error of the library's run, digits that were needed, log10 of its last gradient)."""
    exact, digits = digits_run(s)
    path = library_run(s)
    ours = {name: block[:, 0] for name, block in path.weights.items()}
    error = apart(ours, {name: rows[path.steps] for name, rows in exact.items()})
    return error, digits, float(path.log_gradient[-1, 0] / np.log(10))


def conditioning(s: Training, digits: int) -> tuple[float, float]:
    """How far the many-digit run moves when its start is moved by 1e-16 of its size, and when each
    of its steps ends in floats."""
    exact, _ = digits_run(s)
    return apart(run(s, digits, 1e-16)[0], exact), apart(run(s, digits, rounded=True)[0], exact)


def found(s: Training, what: str, *, always: bool = False) -> Finding:
    """One run; its conditioning is measured where the error is not small by itself."""
    error, digits, size = compared(s)
    words = f"{error:.1g}; {digits} digits, gradient 1e{size:.0f}"
    met = error <= ASKED
    if always or not met:
        own = conditioning(s, digits)
        words += f"; its own: {own[0]:.1g} from the start, {own[1]:.1g} from steps in floats"
        met = met or error <= ROOM * max(own)
    return Finding(what, words, f"≤ {ASKED:.0e}", met)
