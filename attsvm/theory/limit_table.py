"""The table of limits: (model, optimizer family) -> norm, status, statement, references, premises.

A status speaks about softmax attention trained by that very optimizer:

    proved          a theorem, under the premises of the row
    path-only       a theorem on the regularization path; that the descent follows it is not proved
    proved-linear   a theorem for linear or multiclass models only
    conjectured     derived or tested, not proved; theorems on related cases are named
    none            nothing is established, and no norm is known
    unknown         the optimizer or the model is not in this table

Theory: [tarzanagh2023maxmargin], [tarzanagh2023svm], [vasudeva2024rates], [julistiono2024mirror],
[huang2024nexttoken], [li2024mechanics], [sheen2024flow], [fan2025spectral], [zhang2024adam].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["proved", "proved-linear", "path-only", "conjectured", "none", "unknown"]

_A, _B, _C = "tarzanagh2023maxmargin", "tarzanagh2023svm", "julistiono2024mirror"
_RATES, _NEXT, _GRAPH = "vasudeva2024rates", "huang2024nexttoken", "li2024mechanics"
_FLOW, _STEEP, _ADAM = "sheen2024flow", "fan2025spectral", "zhang2024adam"


@dataclass(frozen=True)
class LimitRow:
    """A cell of the table: norm lP stands for the entrywise norm of the optimizer's exponent P."""

    norm: str | None
    status: Status
    statement: str
    references: tuple[str, ...]
    premises: tuple[str, ...]


_DATA = ("linear head", "decreasing loss", "one best token", "separable")
_DESCENT_DATA = (*_DATA, "any start", "near or any start", "small step")
_MIRROR_DATA = (*_DATA, "near start", "small step")
_RUN = (*_DATA, "any start", "near or any start")
_JOINT = ("decreasing loss", "labels", "one best token", "separable", "support", "label margin")
_TWO = ("realizable", "orthonormal", "staged")

_DESCENT = (
    "The norm diverges and the direction tends to the least-norm solution at locally optimal "
    "tokens when started near it. When the other tokens of an input share one score the theorem "
    "says so of the best tokens from any start; with one input that stands, with several some "
    "starts are proved to end elsewhere (claim B.equal-scores-global)."
)
_MIRROR = (
    "Started near the least ℓp-norm solution of locally optimal tokens, the norm diverges and "
    "the direction tends to that solution."
)
_PATH = (
    "The least loss inside a growing ball has the direction of the least-norm solution at the "
    "best tokens."
)
_JOINT_PATH = (
    "With decoder and attention both bounded, the path's attention tends to the least-norm "
    "solution with margin 1 on inputs that support the decoder and 0 on the others, and the "
    "decoder to its own; how fast the two radii grow matters. For the descent this is not proved."
)
_NOTE = "Proved for linear and multiclass models; for attention it is a conjecture."

_GD = LimitRow("frobenius", "proved", _DESCENT, (_A, _B), _DESCENT_DATA)
_NGD = LimitRow(
    "frobenius",
    "proved",
    "The direction tends to the least-norm solution at the best tokens, with a finite-time rate.",
    (_RATES,),
    (*_DATA, "data model"),
)
_NGD_PROMPT = LimitRow(
    "frobenius",
    "conjectured",
    "In the limit of small steps the iterates follow gradient flow's curve at another speed, "
    "which suggests the limit of gradient descent; the finite-time theorem is on weights.",
    (_A, _RATES),
    _RUN,
)
_LP = LimitRow("lP", "proved", _MIRROR, (_C,), _MIRROR_DATA)
_LP_NORMALIZED = LimitRow(
    "lP",
    "conjectured",
    "The limit of mirror descent on the same potential, as published experiments show; the "
    "theorem is on the optimizer without normalization.",
    (_C,),
    _RUN,
)
_SIGN = LimitRow("max", "conjectured", "Largest margin in the max norm. " + _NOTE, (_STEEP,), _RUN)
_SPECTRAL = LimitRow(
    "spectral",
    "conjectured",
    "Largest margin in the spectral norm (for a prompt, one column, the Euclidean). " + _NOTE,
    (_STEEP,),
    _RUN,
)
_ADAM_MAX = LimitRow(
    "max",
    "conjectured",
    "Largest margin in the max norm, without eps and on full batches. " + _NOTE,
    (_ADAM, _STEEP),
    (*_RUN, "full batch"),
)
_BALL = LimitRow("frobenius", "path-only", _PATH, (_A, _B), _DATA)
_NUCLEAR = LimitRow(
    "nuclear",
    "conjectured",
    "The nuclear norm of K Qᵀ: proved for the vanishing-ridge path, and for gradient flow with "
    "exponential loss from aligned starts; not for the descent from a general start.",
    (_B, _FLOW),
    (*_RUN, "nuclear rank"),
)
_NUCLEAR_NORMALIZED = LimitRow(
    "nuclear",
    "conjectured",
    "The nuclear norm of K Qᵀ, as published experiments with normalized steps show; proved for "
    "the vanishing-ridge path only.",
    (_B,),
    (*_RUN, "nuclear rank"),
)
_NUCLEAR_PATH = LimitRow(
    "nuclear",
    "path-only",
    "With ‖K‖² + ‖Q‖² bounded, the path of K Qᵀ tends to the set of least nuclear norm at the "
    "best tokens.",
    (_B,),
    (*_DATA, "width"),
)
_FACTORED_SPECTRAL = LimitRow(
    "spectral",
    "conjectured",
    "Spectral steps on each factor suggest the spectral norm of K Qᵀ once the start reaches the "
    "rank: factoring changes nothing. No theorem is known.",
    (_STEEP,),
    (*_RUN, "rank"),
)
_FACTORED_SIGN = LimitRow(
    None,
    "conjectured",
    "No entrywise norm: the product seems to follow the gauge of sign outer products x yᵀ, "
    "which is not the max norm and is not among the norms solved here.",
    (_STEEP,),
    _RUN,
)
_FACTORED_OPEN = LimitRow(None, "none", "No norm of K Qᵀ is known or suggested.", (), _RUN)
_JOINT_GD = LimitRow("frobenius", "path-only", _JOINT_PATH, (_A,), _JOINT)
_JOINT_LP_2 = LimitRow("frobenius", "path-only", _JOINT_PATH, (_C,), _JOINT)
_JOINT_LP = LimitRow("lP", "path-only", _JOINT_PATH, (_C,), _JOINT)
_JOINT_NGD = LimitRow(
    "frobenius",
    "proved",
    "Weights and decoder trained together by normalized steps tend to their max-margin "
    "directions, for data drawn from a special model with nearly orthogonal tokens and with the "
    "step sizes of the theorem. Elsewhere only the regularization path is known.",
    (_RATES, _C),
    (*_JOINT, "data model", "theorem's steps"),
)
_JOINT_SIGN = LimitRow("max", "conjectured", "Attention part: " + _NOTE, (_STEEP,), _JOINT)
_JOINT_SPECTRAL = LimitRow("spectral", "conjectured", "Attention part: " + _NOTE, (_STEEP,), _JOINT)
_JOINT_ADAM = LimitRow(
    "max", "conjectured", "Attention part: " + _NOTE, (_ADAM,), (*_JOINT, "full batch")
)
_TWO_STAGES = LimitRow(
    "frobenius",
    "proved",
    "W_ov, then W_kq with W_ov frozen, tend in direction to their least-norm solutions; the loss "
    "decays at a linear rate.",
    (_NEXT,),
    (*_TWO, "steady"),
)
_TWO_PLAIN = LimitRow(
    "frobenius",
    "conjectured",
    "The limit of the two normalized stages; gradient descent on attention with a fixed head has "
    "a theorem of its own, with ties and a finite part.",
    (_NEXT, _GRAPH),
    _TWO,
)
_TWO_LP = LimitRow(
    "lP", "conjectured", "Entrywise ℓp in each stage; no theorem.", (_NEXT, _C), _TWO
)
_TWO_STEEP = "in each stage: proved for W_ov, a multiclass model; a conjecture for W_kq."
_TWO_SIGN = LimitRow("max", "conjectured", f"Max norm {_TWO_STEEP}", (_NEXT, _STEEP), _TWO)
_TWO_SPECTRAL = LimitRow("spectral", "conjectured", f"Spectral {_TWO_STEEP}", (_NEXT, _STEEP), _TWO)
_TWO_ADAM = LimitRow(
    "max", "conjectured", f"Max norm {_TWO_STEEP}", (_NEXT, _STEEP), (*_TWO, "full batch")
)

# fmt: off
# The families of one row are named together: signum as sign, muon as spectral descent.
_ROWS: dict[str, dict[str, LimitRow]] = {
    "prompt": {
        "gd": _GD, "ngd polyak": _NGD_PROMPT, "mirror": _LP, "nmirror": _LP_NORMALIZED,
        "sign signum": _SIGN, "spectral muon": _SPECTRAL, "adam": _ADAM_MAX, "path": _BALL,
    },
    "weight": {
        "gd": _GD, "ngd polyak": _NGD, "mirror": _LP, "nmirror": _LP_NORMALIZED,
        "sign signum": _SIGN, "spectral muon": _SPECTRAL, "adam": _ADAM_MAX, "path": _BALL,
    },
    "factored": {
        "gd": _NUCLEAR, "ngd polyak": _NUCLEAR_NORMALIZED, "mirror nmirror": _FACTORED_OPEN,
        "sign signum": _FACTORED_SIGN, "spectral muon": _FACTORED_SPECTRAL,
        "adam": _FACTORED_OPEN, "path": _NUCLEAR_PATH,
    },
    "joint-prompt": {
        "gd ngd polyak path": _JOINT_GD, "mirror nmirror": _JOINT_LP, "sign signum": _JOINT_SIGN,
        "spectral muon": _JOINT_SPECTRAL, "adam": _JOINT_ADAM,
    },
    "joint-weight": {
        "ngd": _JOINT_NGD, "gd polyak path": _JOINT_LP_2, "mirror nmirror": _JOINT_LP,
        "sign signum": _JOINT_SIGN, "spectral muon": _JOINT_SPECTRAL, "adam": _JOINT_ADAM,
    },
    "next-token": {
        "ngd": _TWO_STAGES, "gd polyak path": _TWO_PLAIN, "mirror nmirror": _TWO_LP,
        "sign signum": _TWO_SIGN, "spectral muon": _TWO_SPECTRAL, "adam": _TWO_ADAM,
    },
}
# fmt: on
TABLE: dict[tuple[str, str], LimitRow] = {
    (model, family): row
    for model, rows in _ROWS.items()
    for families, row in rows.items()
    for family in families.split()
}
