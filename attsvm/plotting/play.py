"""The playground: a page that computes in the browser what the library computes, in the plane.

Its mathematics is `html/play_math.js`, its drawing `html/play_page.js`; tests compare the former
with the library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attsvm.datasets.instances import multi_input_planar, single_input_global, single_input_local
from attsvm.plotting.html import render
from attsvm.plotting.html.shell import script_json
from attsvm.theory.limits import predict

OPTIMIZERS = {"gd": "gd", "ngd": "ngd", "sign": "sign", "mirror": "mirror:1.5"}
OPTIMIZERS["nmirror"] = "nmirror:1.5"


def _instance(inputs: Any, v: Any = (0.0, 0.0)) -> dict[str, Any]:
    """An instance of the page: each token is (x₁, x₂, own score), each label +1."""
    return {
        "v": list(v),
        "inputs": [
            {"label": 1, "tokens": [{"x": [x, y], "c": c} for x, y, c in tokens]}
            for tokens in np.asarray(inputs, dtype=float).tolist()
        ],
    }


def _planar(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """An instance of the papers whose third coordinate is the score alone."""
    return _instance(arrays["X"])


def presets() -> list[dict[str, Any]]:
    """The examples of the page: name, what to look at, instance, start, and settings."""
    usual = {"optimizer": "ngd", "lr": "0.1", "steps": "1000"}
    two = [
        [[0.35, 0.1, 0], [-0.35, -0.8, 0], [-0.35, -0.4, 0]],
        [[-0.65, -0.5, 0], [-0.6, 0.35, 0], [-0.3, 0.85, 0]],
    ]
    away = [[[0.5, 0.0, 1], [-0.5, 0.0, 0]], [[-1.0, 0.5, 1], [1.0, -0.5, 0]]]
    return [
        {
            "name": "Two inputs",
            "about": "Two inputs of three tokens. Which selection the run ends at depends on the "
            "start: move p₀, or shade the regions of starts.",
            "instance": _instance(two, (0.55, -0.25)),
            "start": [-0.3, 0.6],
            "settings": usual,
        },
        {
            "name": "One input, two optima",
            "about": "Token A0 has the highest score. The token that is tight for A1 scores lower, "
            "so A1 is locally optimal too, and starts near its direction end there.",
            "instance": _planar(single_input_local()),
            "start": [0.3, 0.1],
            "settings": usual,
        },
        {
            "name": "One input, one optimum",
            "about": "Now token A2 scores as high as A1, so A1 is no longer locally optimal.",
            "instance": _planar(single_input_global()),
            "start": [0.3, 0.1],
            "settings": usual,
        },
        {
            "name": "Three inputs",
            "about": "Three inputs of seven tokens round three centres; the first token of each "
            "has the highest score.",
            "instance": _planar(multi_input_planar()),
            "start": [0.0, 0.0],
            "settings": usual,
        },
        {
            "name": "A start that ends elsewhere",
            "about": "Two inputs of two tokens, one selection with the highest scores. From p₀ far "
            "to the right the direction of p stays away from its max-margin direction; from the "
            "origin it tends there.",
            "instance": _instance(away),
            "start": [6.0, 0.0],
            "settings": usual | {"optimizer": "gd", "lr": "1", "steps": "20000"},
        },
    ]


def page() -> str:
    """The page, one HTML file that loads nothing."""
    examples = presets()
    found = {name: predict("prompt", optimizer) for name, optimizer in OPTIMIZERS.items()}
    limits = {k: {"status": x.status, "statement": x.statement} for k, x in found.items()}
    return render(
        "attsvm.plotting.html", "play.html",
        presets=examples, data=script_json(examples), limits=script_json(limits),
    )  # fmt: skip
