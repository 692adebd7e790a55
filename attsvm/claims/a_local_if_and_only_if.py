"""A: descent started near a max-margin direction stays there exactly at locally optimal tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm.certificate import Certificate
from attsvm.claims.claim import Claim, Config, Finding, Result, at_least, at_most, equals, noted
from attsvm.claims.proof import cosine, kept, recertified, selected, worst_gap
from attsvm.data.sphere import sphere
from attsvm.optima import local_optima
from attsvm.problem import Problem
from attsvm.selection import Selection
from attsvm.solvers.many import solve_many
from attsvm.tokens import Floats, Tokens
from attsvm.training import train

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A start that ends this near its direction, with its tokens leading, has stayed.
_NEAR = 0.999


def _draw(size: list[int], seed: int) -> tuple[Tokens, Floats]:
    n, T, d = size
    arrays = sphere(n, T, d, seed=seed)
    return Tokens(arrays["X"], labels=arrays["y"]), arrays["v"]


def _verdicts(size: list[int], seed: int) -> dict[tuple[int, ...], bool | None]:
    """Every feasible selection, and whether it is locally optimal; None: undecided."""
    tokens, v = _draw(size, seed)
    found = local_optima(tokens, v)
    known = {choice: verdict.locally for choice, verdict in found.local}
    return {c: known.get(c, False) for c in (tuple(map(int, row)) for row in found.choices)}


def _problems(size: list[int], owner: Floats, choice: Floats) -> list[Problem]:
    """The problem of each selection (K, n) in the instance of its seed (K,)."""
    drawn = {int(s): _draw(size, int(s))[0] for s in set(owner.tolist())}
    pairs = [(drawn[int(s)], c) for s, c in zip(owner, choice, strict=True)]
    return [Problem.of(tokens, Selection.of(tokens, c)) for tokens, c in pairs]


def _ends(size: list[int], owner: Floats, start: Floats, lr: float, steps: int) -> Floats:
    """Where normalized descent ends from each start (K, d)."""
    drawn = {int(s): _draw(size, int(s)) for s in set(owner.tolist())}
    stack = [drawn[int(s)] for s in owner]
    path = train([tokens for tokens, _ in stack], model="prompt",
                 head=np.stack([v for _, v in stack]), lr=lr, steps=steps,
                 init={"p": start})  # fmt: skip
    return path.weights["p"][-1]


def run(config: Config) -> Result:
    """All feasible selections, started near their directions at several sizes; cones of starts."""
    out: Result = {}
    for g, size in enumerate(config["sizes"]):
        listed = [(s, c, local) for s in config["seeds"] for c, local in _verdicts(size, s).items()]
        owner = np.array([s for s, _, _ in listed])
        choice = np.array([c for _, c, _ in listed])
        best = solve_many(_problems(size, owner, choice))
        W = np.stack([np.asarray(c.require().W)[:, 0] for c in best])
        stream = np.random.default_rng([g, 7])
        tilt = config["tilt"] * _unit(stream.standard_normal(W.shape))
        out |= {f"{g}.owner": owner, f"{g}.choice": choice, **kept(f"{g}.best", best)}
        out[f"{g}.start"] = np.stack([R * (W + tilt) for R in config["margins"]])
        out[f"{g}.end"] = np.stack([
            _ends(size, owner, start, R * config["pace"], config["steps"])
            for R, start in zip(config["margins"], out[f"{g}.start"], strict=True)
        ])  # fmt: skip
        local = np.array([k for k, (_, _, verdict) in enumerate(listed) if verdict])
        unit = _unit(W[local])[:, None]
        side = stream.standard_normal((len(local), config["directions"], W.shape[1]))
        side = _unit(side - (side * unit).sum(axis=2, keepdims=True) * unit)
        angle = np.radians(config["angles"])[:, None, None, None]
        cone = config["reach"] * (np.cos(angle) * unit + np.sin(angle) * side)
        flat = np.broadcast_to(owner[local][None, :, None], cone.shape[:3]).ravel()
        ends = _ends(size, flat, cone.reshape(-1, W.shape[1]), config["reach"] * config["pace"],
                     config["steps"])  # fmt: skip
        out |= {f"{g}.local": local, f"{g}.cone": cone, f"{g}.return": ends.reshape(cone.shape)}
    return out


def _unit(x: Floats) -> Floats:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _stayed(tokens: Tokens, choice: Floats, p: Floats, best: Certificate) -> tuple[bool, bool]:
    """Whether p selects the tokens, and whether it is near their direction as well."""
    holds = bool((selected(tokens, p[:, None]) == choice).all())
    return holds, holds and cosine(p[:, None], best) >= _NEAR


def _returns(config: Config, result: Result) -> dict[str, Floats]:
    """Whether each start of a cone came back, (A, L·D) by kind of optimum."""
    rows: dict[str, list[Floats]] = {"best tokens": [], "other locally optimal tokens": []}
    for g, size in enumerate(config["sizes"]):
        owner, choice, local = (result[f"{g}.{name}"] for name in ("owner", "choice", "local"))
        W = result[f"{g}.best.W"][:, :, 0]
        for place, k in enumerate(local):
            tokens, v = _draw(size, int(owner[k]))
            ends = result[f"{g}.return"][:, place]
            cosines = ends @ W[k] / np.linalg.norm(ends, axis=2) / np.linalg.norm(W[k])
            right = np.array([
                [bool((selected(tokens, p[:, None]) == choice[k]).all()) for p in row]
                for row in ends
            ])  # fmt: skip
            first = bool((Selection.best(tokens, v).indices == choice[k]).all())
            name = "best tokens" if first else "other locally optimal tokens"
            rows[name].append(right & (cosines >= _NEAR))
    return {name: np.array(part) for name, part in rows.items() if part}


def check(config: Config, result: Result) -> Finding:
    """Verdicts are computed again from the data, and who stayed from the weights."""
    margins = config["margins"]
    stayed = np.zeros((2, len(margins)))
    kept_on = np.zeros(len(margins))
    count, missing, doubtful, turned, far = np.zeros(2, dtype=int), 0, 0, 0, 0.0
    gaps = [0.0]
    for g, size in enumerate(config["sizes"]):
        owner, choice = result[f"{g}.owner"], result[f"{g}.choice"]
        best = recertified(f"{g}.best", _problems(size, owner, choice), "frobenius", result)
        gaps.append(worst_gap(best))
        listed = {(int(s), tuple(map(int, c))) for s, c in zip(owner, choice, strict=True)}
        known = {s: _verdicts(size, s) for s in config["seeds"]}
        missing += sum((s, c) not in listed for s, part in known.items() for c in part)
        missing += len(owner) - len(listed)
        for k, certificate in enumerate(best):
            tokens, _ = _draw(size, int(owner[k]))
            verdict = known[int(owner[k])][tuple(map(int, choice[k]))]
            if verdict is None:
                doubtful += 1
                continue
            count[int(verdict)] += 1
            for r, R in enumerate(margins):
                start, end = result[f"{g}.start"][r, k], result[f"{g}.end"][r, k]
                W = result[f"{g}.best.W"][k, :, 0]
                far = max(far, float(np.linalg.norm(start / R - W)))
                holds, stays = _stayed(tokens, choice[k], end, certificate)
                stayed[int(verdict), r] += stays
                kept_on[r] += holds and not verdict
            turned += not verdict and cosine(end[:, None], certificate) < _NEAR
    tests = [
        equals("locally optimal: stayed, largest margin", stayed[1, -1], count[1]),
        equals("not locally optimal: stayed, largest margin", stayed[0, -1], 0),
        equals("not locally optimal: tokens kept to the end, largest margin", kept_on[-1], 0),
        at_least("locally optimal selections judged", count[1], 1),
        at_least("other selections judged", count[0], 1),
        equals("feasible selections that were not started, or twice", missing, 0),
        at_most("largest ‖p(0)/R − p^mm‖", far, 1.001 * config["tilt"]),
        at_most("largest certified gap", max(gaps), 1e-8),
    ]
    # Where ‖p^mm‖ is large the steps are short against ‖p(0)‖: tokens change before directions do.
    tests.append(noted("not locally optimal: left their tokens with the direction hardly turned",
                       int(count[0] - turned)))  # fmt: skip
    for r, R in enumerate(margins[:-1]):
        tests.append(noted(f"share as predicted at margin {R:g}", float(
            (stayed[1, r] + count[0] - stayed[0, r]) / max(count.sum(), 1))))  # fmt: skip
    angles = np.array(config["angles"])
    for name, back in _returns(config, result).items():
        # Of each optimum the largest angle up to which every direction came back, 0 for none.
        good = np.logical_and.accumulate(back.all(axis=2), axis=1).sum(axis=1)
        cones = np.concatenate([[0.0], angles])[good]
        where = f"{name}, ‖p(0)‖ = {config['reach']:g}"
        tests += [noted(f"{where}: median cone, degrees", float(np.median(cones))),
                  noted(f"{where}: least cone, degrees", float(cones.min()))]  # fmt: skip
    premises = (
        f"{len(config['sizes']) * len(config['seeds'])} random instances: {count[1]} feasible "
        f"selections are locally optimal, {count[0]} are not, {doubtful} are undecided and not "
        "judged"
    )
    return Finding(tuple(tests), premises, int(count.sum()), max(gaps))


def plot(config: Config, result: Result) -> Figure:
    """Where the starts near each direction end, and from how far descent comes back."""
    from attsvm.claims.drawing import CYCLE, level, panels

    figure, (left, right) = panels(2)
    away: tuple[list[float], list[float]] = ([], [])
    for g, size in enumerate(config["sizes"]):
        verdicts = {s: _verdicts(size, s) for s in config["seeds"]}
        W, ends = result[f"{g}.best.W"][:, :, 0], result[f"{g}.end"][-1]
        cosines = (ends * W).sum(axis=1) / np.linalg.norm(ends, axis=1) / np.linalg.norm(W, axis=1)
        for k, value in enumerate(1 - cosines):
            verdict = verdicts[int(result[f"{g}.owner"][k])][
                tuple(map(int, result[f"{g}.choice"][k]))
            ]
            if verdict is not None:
                away[int(verdict)].append(max(float(value), 1e-16))
    names = ("not locally optimal", "locally optimal")
    for values, colour, name in zip(away, (CYCLE[1], CYCLE[0]), names, strict=True):
        label = f"{name} ({len(values)})"
        left.plot(np.sort(values), np.linspace(0, 1, len(values)), ".-", color=colour, label=label)
    left.set(xscale="log", xlabel="1 − cosine to the own direction, at the end",
             ylabel="share of selections below", title="Where starts beside it end")  # fmt: skip
    left.legend(frameon=False, loc="center")
    for j, (name, back) in enumerate(_returns(config, result).items()):
        right.plot(config["angles"], back.mean(axis=(0, 2)), "o-", color=CYCLE[2 + j], label=name)
    level(right, 1.0)
    right.set(xlabel="angle of the start to the direction, degrees", ylim=(0, 1.05),
              ylabel="share of random directions that return", title="Cones")  # fmt: skip
    right.legend(frameon=False, loc="lower left")
    return figure


_FULL = {
    "sizes": [[2, 4, 4], [3, 3, 5]], "seeds": list(range(20)), "margins": [10.0, 100.0, 1000.0],
    "tilt": 1e-3, "pace": 0.002, "steps": 5000, "reach": 300.0, "directions": 8,
    "angles": [1.0, 3.0, 10.0, 20.0, 30.0, 45.0, 60.0, 75.0, 90.0, 120.0],
}  # fmt: skip

CLAIM = Claim(
    id="A.local-if-and-only-if",
    title="Exactly the locally optimal tokens hold the descent",
    kind="theorem",
    trust="as recalled",
    statement="Descent on the prompt, started at a large multiple of the max-margin direction of a "
    "selection and close to it, keeps the selection and its direction exactly when the selection "
    "is locally optimal: no tight neighbour of a kept token has a higher score. The converse is "
    "stated for the least loss in a cone; here it is tested on descent.",
    full=_FULL,
    quick={**_FULL, "seeds": [0, 2, 4], "directions": 3, "angles": [3.0, 30.0, 90.0]},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023maxmargin",
)
