"""Local minimisation over a sphere, a ball or all sizes: L-BFGS, then a second-order end.

L-BFGS sees values, so that it stops where they no longer change in floats. The direction of a
gradient has all its digits there: `settled` solves for the point that its own slope leads to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import scipy

from attsvm._utils.arrays import Floats
from attsvm._utils.parallel import one_thread
from attsvm.errors import Unsupported
from attsvm.norms import Norm

# x (d, dq) -> value and slope, to be minimised.
Objective = Callable[[Floats], tuple[float, Floats]]
# The sizes that x may have: the radius, up to the radius, any.
Reach = Literal["sphere", "ball", "free"]
# Beyond so many unknowns the Jacobian by differences costs more than it brings.
UNKNOWNS = 256
# A free size stays within this factor e^FAR of the start's: a line search may try any.
FAR = 30.0
# The relative step by which the change of a size is measured.
STEP = 1e-4


def descend(
    objective: Objective,
    start: Floats,
    radius: float,
    norm: Norm,
    cone: tuple[Floats, float] | None = None,
    reach: Reach = "sphere",
) -> Floats:
    """A local minimiser of the objective over ‖x‖ = radius, by L-BFGS from the start.

    With a cone, x/‖x‖ is c + tan·y/√(1 + ‖y‖²) for y ⟂ c, normalised. reach "ball" adds a
    shrinking factor 1/(1 + s²), the boundary at s = 0; "free" a factor e^s, the start at its own
    size.
    """
    shape, sized, normal = start.shape, reach != "sphere", normal_of(norm)

    def point(y: Floats) -> tuple[Floats, Callable[[Floats], Floats]]:
        w, factor, turn = (y[:-1] if sized else y).reshape(shape), 1.0, 0.0
        if reach == "ball":  # turn: the derivative of log factor in s
            factor, turn = 1 / (1 + y[-1] ** 2), -2 * y[-1] / (1 + y[-1] ** 2)
        elif reach == "free":
            inner = abs(y[-1]) < FAR
            factor, turn = np.exp(np.clip(y[-1], -FAR, FAR)), float(inner)
        if cone is not None:
            c, tan = cone
            flat = w - np.vdot(w, c) * c
            root = np.sqrt(1 + np.vdot(flat, flat))
            w = c + tan * flat / root
        size = float(norm.value(w))
        u = w / size
        x = radius * factor * u

        def back(g: Floats) -> Floats:
            out = (g - np.vdot(g, u) * normal(u)) * (radius * factor / size)
            if cone is not None:
                out = tan * (out / root - flat * (np.vdot(flat, out) / root**3))
                out -= np.vdot(out, c) * c
            return np.append(out.ravel(), np.vdot(g, x) * turn) if sized else out.ravel()

        return x, back

    def along(y: Floats) -> tuple[float, Floats]:
        x, back = point(y)
        value, g = objective(x)
        return value, back(g)

    size = float(norm.value(start))
    y = (start / size).ravel()
    if cone is not None:
        c, tan = cone
        w = y.reshape(shape) / np.vdot(y, c) - c
        t = min(float(np.linalg.norm(w)) / tan, 0.9)
        y = (w / max(float(np.linalg.norm(w)), 1e-300) * t / np.sqrt(1 - t * t)).ravel()
    if reach == "ball":
        y = np.append(y, np.sqrt(max(radius / size - 1, 0.01)))
    elif reach == "free":
        y = np.append(y, np.log(size / radius))
    options: Any = {"maxiter": 3000, "maxfun": 6000, "maxcor": 30, "ftol": 1e-16, "gtol": 1e-11}
    with one_thread():
        end = scipy.optimize.minimize(along, y, jac=True, method="L-BFGS-B", options=options)
    return point(end.x)[0]


def settled(wanted: Callable[[Floats], Floats], start: Floats) -> Floats:
    """A root of x = wanted(x) near the start, by Powell's hybrid method; the start where none came.

    wanted(x): the point that would be stationary if the slope at x were that of everywhere; at a
    stationary point it is x itself. The caller judges whether the end is better than the start.
    Directions are compared as they are and sizes by their logarithms: a slope of e^−4000 changes
    its size by a large factor where x hardly moves.
    """
    if start.size > UNKNOWNS:
        return start
    size = float(np.linalg.norm(start))

    def apart(u: Floats) -> tuple[Floats, Floats, float]:
        x, aim = size * u, wanted((size * u).reshape(start.shape)).ravel()
        tops = [float(np.abs(a).max(initial=0.0)) for a in (x, aim)]
        if not all(0 < top < np.inf for top in tops):
            return u, np.zeros_like(u), 0.0
        # Over the largest entry: the square of an entry can be beyond floats.
        near = [a / top for a, top in zip((x, aim), tops, strict=True)]
        norms = [float(np.linalg.norm(a)) for a in near]
        here, there = (np.log(top) + np.log(r) for top, r in zip(tops, norms, strict=True))
        return near[0] / norms[0], near[1] / norms[1], float(here - there)

    first = start.ravel() / size
    steep = 1 + abs(apart(first * (1 + STEP))[2] - apart(first)[2]) / STEP

    def off(u: Floats) -> Floats:
        unit, aim, longer = apart(u)
        return unit - aim + unit * (longer / steep)

    end = scipy.optimize.root(off, first, method="hybr", options={"xtol": 1e-14})
    # A root of another size is not near.
    if not 0.5 < float(np.linalg.norm(end.x)) < 2.0:
        return start
    x: Floats = (size * end.x).reshape(start.shape)
    return x


def normal_of(norm: Norm) -> Callable[[Floats], Floats]:
    """The gradient of the norm as a function of u of norm 1. Raises Unsupported without one."""
    if norm.normal is None:
        raise Unsupported(f"norm {norm.name} has no normal: give it the gradient of the norm")
    return norm.normal
