"""Claims that exist in tests only: they run at once, and can be told to break."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from attsvm.experiments.studies.claim import Claim, Config, Finding, Motion, Result, Track, at_most

NAME, OTHER = "Z.made-up", "Z.second"


def made(
    name: str = NAME,
    *,
    run: Callable[[Config], Result] | None = None,
    runs: list[str] | None = None,
    **changes: Any,
) -> Claim:
    """A claim that holds when its x is at most its limit. runs: gets the id at every run."""

    def measured(config: Config) -> Result:
        if runs is not None:
            runs.append(name)
        return {"x": np.array(float(config["x"]))} if run is None else run(config)

    def check(config: Config, result: Result) -> Finding:
        test = at_most("x", float(result["x"]), config["limit"])
        return Finding((test,), "none", 1, 1e-9)

    def plot(config: Config, result: Result) -> Figure:
        figure = Figure(figsize=(2, 1))
        figure.subplots().plot([0.0, float(result["x"])])
        return figure

    def motion(config: Config, result: Result) -> Motion:
        return Motion("moves", [0, 1], [Track("one", [0.0, 1.0], [0.0], "0")], ["k"], "x", "y")

    return Claim(
        **{
            "id": name, "title": "Made up", "kind": "figure", "trust": "measured",
            "statement": "x is small.", "full": {"x": 1, "limit": 2}, "quick": {"x": 1, "limit": 3},
            "run": measured, "check": check, "plot": plot, "motion": motion, **changes,
        }
    )  # fmt: skip
