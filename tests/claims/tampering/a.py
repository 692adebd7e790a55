"""Tampered results of the claims of paper A."""

import numpy as np

from attsvm.claims.a import contextual_data as a_contextual_data
from attsvm.claims.a import multi_input as a_multi_input
from attsvm.claims.a import nonlinear_head_path
from attsvm.claims.shared import prompt_paths
from attsvm.problem.problem import Problem
from attsvm.solvers.front import solve
from tests.claims.tampering.ways import backwards, changed, rolled, scaled_up


def swapped(first, second):
    """Two arrays in each other's place."""
    return lambda config, result: {
        **result, first: np.array(result[second]), second: np.array(result[first]),
    }  # fmt: skip


def turned(name, size=0.1):
    """Weights with some of another direction in them."""

    def mix(a):
        other = np.random.default_rng(0).standard_normal(a.shape)
        return a + size * np.nanmax(np.abs(a)) * other

    return changed(name, mix)


def solved_in(name, norm, problems):
    """The solutions in another norm: they meet every margin, and are too long in the right one."""

    def tamper(config, result):
        W = np.array(result[name])
        for k, problem in enumerate(problems(config)):
            if not np.isnan(W[k]).any():
                W[k] = solve(problem, norm).W
        return {**result, name: W}

    return tamper


def _multi_input(config):
    tokens, v = a_multi_input.instance("multi-input-planar")
    return [Problem.of(tokens, a_multi_input.Selection.best(tokens, v))]


def _paths(config):
    return [prompt_paths.problem(config, seed) for seed in config["seeds"]]


def _ties(config):
    drawn = [nonlinear_head_path.draw(config, seed) for seed in config["seeds"]]
    return [Problem.of(one.tokens, one.sets) for one in drawn]


def _pieces(config):
    return [
        p
        for s in config["seeds"]
        for p in nonlinear_head_path.pieces(nonlinear_head_path.draw(config, s))
    ]


def _contexts(config):
    return [
        Problem.of(one.tokens, one.best) for one in a_contextual_data.instances(config, "given")
    ]


def tied_path(config, result):
    """The path that the ties inside the sets would give."""
    tied = result["tied.W"][:, None, :, 0]
    size = np.linalg.norm(result["p"], axis=2, keepdims=True)
    return {**result, "p": size * tied / np.linalg.norm(tied, axis=2, keepdims=True)}


def straight_path(config, result):
    """The certified directions themselves, at every radius: the end without the way."""
    W = result["best.W"][:, None, :, 0]
    out = dict(result)
    for loss in config["losses"]:
        size = np.linalg.norm(result[f"{loss}.p"], axis=2, keepdims=True)
        out[f"{loss}.p"] = size * W / np.linalg.norm(W, axis=2, keepdims=True)
    return out


_SINGLE = (
    ("the path backwards", backwards("p")),
    ("the solutions of other tokens", rolled("best.W")),
    ("the ends of the map permuted", changed("map.top", lambda a: (a + 1) % 3)),
)

_JOINT = (
    ("the path of the prompt backwards", backwards("p")),
    ("the path of the decoder backwards", backwards("v")),
    ("the decoder and the prompt swapped", swapped("p", "v")),
)

TAMPERED = {
    "A.single-input-global": _SINGLE,
    "A.single-input-local": _SINGLE,
    "A.multi-input": (
        ("the path backwards", backwards("p")),
        ("the solution in the max norm", solved_in("planar.W", "max", _multi_input)),
        ("the two problems' solutions swapped", swapped("planar.W", "whole.W")),
        ("multipliers that promise more", scaled_up("whole.multipliers")),
    ),
    "A.gd-against-ngd": (
        ("the two rules swapped", swapped("gd.p", "ngd.p")),
        (
            "records out of order",
            changed("ngd.p", lambda a: a[np.argsort(np.sin(np.arange(len(a))))]),
        ),
        (
            "a run that stops halfway, as an additive eps makes it",
            changed("ngd.p", lambda a: a[np.minimum(np.arange(len(a)), len(a) // 2)]),
        ),
    ),
    "A.joint-tight": (*_JOINT, ("the prompt's solution turned", turned("whole.W"))),
    "A.joint-relaxed": (
        *_JOINT,
        ("the relaxed and the unrelaxed solution swapped", swapped("relaxed.W", "whole.W")),
    ),
    "A.joint-path": (
        ("the two speeds of the decoder swapped", swapped("2.p", "3.p")),
        ("one path backwards", backwards("3.p")),
        ("another path backwards", backwards("0.p")),
        ("the decoder turned", turned("1.v")),
        ("the unrelaxed solution as the relaxed one", swapped("3.relaxed.W", "3.whole.W")),
    ),
    "A.loss-transients": (
        ("the two losses swapped", swapped("linear.p", "logistic.p")),
        ("the path backwards", backwards("logistic.p")),
        ("the solution turned", turned("best.W")),
    ),
    "A.prompt-weight-equivalence": (
        ("the prompts of other instances", rolled("q")),
        ("weights with the noise of short numbers", changed("W", lambda a: a.astype(np.float32))),
        ("the prompts one record late", rolled("q", axis=1)),
    ),
    "A.regularization-path": (
        ("the paths of other instances", rolled("logistic.p")),
        ("the path backwards", changed("linear.p", lambda a: a[:, ::-1])),
        ("solutions in the max norm", solved_in("best.W", "max", _paths)),
        ("the certified directions at every radius", straight_path),
    ),
    "A.vanishing-penalty": (
        ("the prompts of other instances", rolled("p")),
        ("the path backwards", changed("p", lambda a: a[:, ::-1])),
        ("solutions in the ℓ1.5 norm", solved_in("best.W", "l1.5", _paths)),
        ("prompts a tenth longer", changed("p", lambda a: a * 1.1)),
    ),
    "A.nonlinear-head-path": (
        ("the path along the tied solutions", tied_path),
        ("solutions in the max norm", solved_in("pieces.W", "max", _pieces)),
        ("tied solutions in the ℓ1.5 norm", solved_in("tied.W", "l1.5", _ties)),
        ("winners permuted", changed("winners", lambda a: 1 - a)),
        ("the path backwards", changed("p", lambda a: a[:, ::-1])),
    ),
    "A.local-if-and-only-if": (
        ("every end where it started", lambda c, r: {**r, "0.end": np.array(r["0.start"])}),
        ("the ends of other selections", rolled("1.end", axis=1)),
        ("the solutions of other selections", rolled("0.best.W")),
        ("selections permuted", rolled("1.choice")),
        ("starts further off", turned("0.start")),
    ),
    "A.contextual-data": (
        ("the path backwards", backwards("given.W")),
        ("the weights of other instances", rolled("first.W", axis=1)),
        ("solutions in the max norm", solved_in("given.best.W", "max", _contexts)),
        ("the prompts turned", turned("prompt.W")),
    ),
}
