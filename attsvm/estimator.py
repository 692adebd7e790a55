"""MaxMarginAttention: one layer of attention and its decoder as a scikit-learn classifier.

Needs scikit-learn (the extra `sklearn`); `import attsvm` does not load it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Floats
from attsvm._utils.expected import checked_by, shown, whole
from attsvm._utils.version import install
from attsvm.certificate import Certificate
from attsvm.errors import BadTokens, ConvergenceWarning, Unsupported
from attsvm.norms import Norm, norm_of
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.theory.outcome import Outcome, outcome
from attsvm.training.losses import Loss
from attsvm.training.models.gradient.attention import attend
from attsvm.training.optimizers import Optimizer
from attsvm.training.path import Path
from attsvm.training.train import train_tokens

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import assert_all_finite
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import (
        check_array,
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
    )
except ImportError as error:
    raise Unsupported(f"attsvm.estimator needs scikit-learn: {install('sklearn')}") from error

MODELS = ("joint-weight", "joint-prompt")
QUERIES = ("first", "last", None)


# Log-odds over decision value, of the losses whose best decision is a multiple of them.
_LOG_ODDS = {"logistic": 1.0, "exponential": 2.0}


@dataclass(frozen=True, eq=False)
class _Fit:
    """One decision: a class against the others, or the second of two against the first."""

    coef: Floats
    attention: Floats
    path: Path
    outcome: Outcome
    certificate: Certificate | None


def _has_odds(estimator: MaxMarginAttention) -> bool:
    """Whether the loss gives probabilities; an AttributeError says so where it does not."""
    loss = vars(estimator).get("_loss", estimator.loss)  # that of the fit, if there was one
    if not isinstance(loss, str) or loss not in _LOG_ODDS:
        raise AttributeError(
            f"predict_proba needs the loss {' or '.join(_LOG_ODDS)}, whose decision values are "
            f"log-odds; the loss is {loss!r}"
        )
    return True


class MaxMarginAttention(ClassifierMixin, BaseEstimator):
    """A classifier: softmax attention over the tokens of an input, read by a linear decoder.

    The decision value of an input with tokens x_1 … x_T and query z is

        v·Σ_t s_t x_t,   s = softmax(x_t·W z),

    positive for the second class. W and v are trained together by `optimizer` on the mean loss;
    there is no intercept. With K > 2 classes, K such decisions are trained, each class against all
    the others with separate attention, and the largest wins. What the attention selects is
    compared with the max-margin problem of the selected tokens, and a ConvergenceWarning says when
    they are undecided or not locally optimal.

    model: "joint-weight" trains W (d, d); "joint-prompt" a vector p (d,) in place of W z, and is
    what a joint weight becomes when query is None. query: the query token, "first" or "last",
    or None. optimizer, loss: by name, or a custom Optimizer and Loss; init, seed: as in
    `attsvm.train`; lr, max_iter: step size and number of steps. norm: of the certificate; None
    takes the norm that theory predicts for the optimizer.

    After fit: classes_ (K,); coef_ v (d,); attention_ W (d, d) or p (d,); n_iter_; n_features_in_
    d; selection_ (n,) the token of each training input with the most attention; path_ the run;
    certificate_ the max-margin problem of the selection (None when there is one token only);
    outcome_ the end of the run against its predicted limit; state_ "undecided", "saturated", "at a
    locally optimal selection", "converges" or "unknown", as in `attsvm.outcome`. With K > 2 classes
    arrays get a first axis of K, and path_, certificate_, outcome_ and state_ are tuples of K.

    >>> from attsvm.datasets import EXAMPLES
    >>> a = EXAMPLES["joint-tight"]()
    >>> fitted = MaxMarginAttention(query=None).fit(a["X"], a["y"])
    >>> fitted.state_, fitted.selection_
    ('at a locally optimal selection', array([1, 1, 1]))
    >>> fitted.certificate_.W.ravel().round(6)
    array([1.333333, 0.333333])
    >>> fitted.predict_proba(a["X"]).round(1)
    array([[0., 1.],
           [0., 1.],
           [1., 0.]])
    """

    def __init__(
        self,
        *,
        model: str = "joint-weight",
        optimizer: str | Optimizer = "ngd",
        norm: str | Norm | None = None,
        query: str | None = "last",
        loss: str | Loss = "logistic",
        lr: float = 0.1,
        max_iter: int = 2000,
        init: str | dict[str, Any] = "default",
        seed: int = 0,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.norm = norm
        self.query = query
        self.loss = loss
        self.lr = lr
        self.max_iter = max_iter
        self.init = init
        self.seed = seed

    def __sklearn_tags__(self) -> Any:
        """Three axes (read by scikit-learn 1.6 and later)."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """The estimator itself, trained on X (n, T, d) and the labels y (n,) of K classes."""
        model = self._trained_model()
        norm = None if self.norm is None else norm_of(self.norm)
        values = _three_axes(X)
        classes, signs = _classes(y, values)
        fits = [self._trained(values, one, model, norm) for one in signs]
        steps = [int(one.path.steps[-1]) for one in fits]
        self.classes_ = classes
        self.coef_ = _all([one.coef for one in fits])
        self.attention_ = _all([one.attention for one in fits])
        self.n_iter_ = max(steps)
        self.n_features_in_ = values.shape[2]
        self.selection_ = _all([one.outcome.selection for one in fits])
        self.path_ = _each([one.path for one in fits])
        self.outcome_ = _each([one.outcome for one in fits])
        self.certificate_ = _each([one.certificate for one in fits])
        self.state_ = _each([one.outcome.state for one in fits])
        # Those of the weights, whatever the parameters become.
        self._query, self._loss = self.query, self.loss
        for k, one in enumerate(fits):
            unsettled = _unsettled(one.outcome, steps[k])
            if one.path.diverged < 0 and unsettled:
                which = "" if len(fits) == 1 else f"class {classes[k]}: "
                warnings.warn(which + unsettled, ConvergenceWarning, stacklevel=2)
        return self

    def _trained(self, values: Floats, signs: Floats, model: str, norm: Norm | None) -> _Fit:
        """One decision between the labels +1 and −1."""
        tokens = Tokens(values, queries=self.query, labels=signs)
        path = train_tokens(
            tokens,
            model=model,
            optimizer=self.optimizer,
            loss=self.loss,
            lr=self.lr,
            steps=self.max_iter,
            seed=self.seed,
            init=self.init,
        )
        found = outcome(path, tokens)
        if found.limit.norm is None and norm is not None:
            found = outcome(path, tokens, norm=norm)
        certificate = found.certificate
        if norm is not None and certificate is not None and certificate.norm != norm:
            certificate = solve(certificate.problem, norm)
        end = path.at(len(path.steps) - 1)
        W = end["p" if model == "joint-prompt" else "W"][0]
        return _Fit(end["v"][0], W, path, found, certificate)

    def decision_function(self, X: Any) -> Floats:
        """v·o of each input (n,), positive for classes_[1], or (n, K) with K > 2 classes.

        It is exact when attention saturates.
        """
        pooled = self._attend(X)[1]
        values = np.einsum("knd,kd->nk", pooled, self.coef_.reshape(-1, self.n_features_in_))
        return values[:, 0] if len(self.classes_) == 2 else values

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each input (n,)."""
        values = self.decision_function(X)
        if values.ndim == 2:
            return self.classes_[values.argmax(axis=1)]
        return self.classes_[(values > 0).astype(np.int64)]

    @available_if(_has_odds)
    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class (n, K), from the decision values as log-odds.

        They are those of the loss that was trained, logistic or exponential. Training goes on to
        separate, so they tend to 0 and 1 with the steps and are not calibrated. With K > 2 classes
        the K decisions are scaled to the sum 1.
        """
        values = self.decision_function(X)
        scale = _LOG_ODDS[str(self._loss)]
        if values.ndim == 1:
            return np.stack([_sigmoid(-scale * values), _sigmoid(scale * values)], axis=1)
        # In logarithms, so that inputs that no class wants are shared out as well.
        logs = -np.logaddexp(0.0, -scale * values)
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

    def attention(self, X: Any) -> Floats:
        """The attention probabilities (n, T) of each input, or (n, K, T) with K > 2 classes; T may
        differ from that of fit."""
        shares = np.exp(self._attend(X)[0])
        return shares[0] if len(self.classes_) == 2 else shares.transpose(1, 0, 2)

    def _attend(self, X: Any) -> tuple[Floats, Floats]:
        """The log attention (K, n, T) and the pooled tokens (K, n, d) of each decision."""
        check_is_fitted(self)
        values = _three_axes(X)
        d = self.n_features_in_
        _check_features(self, values)
        tokens = Tokens(values, queries=self._query)
        stacked, z, present = values[None], tokens.queries[None], tokens.present()[None]
        found = [
            attend(stacked, stacked, z, present, W.reshape(1, d, -1))
            for W in self.attention_.reshape(-1 if len(self.classes_) > 2 else 1, d, z.shape[2])
        ]
        return np.stack([logs[0] for logs, _, _ in found]), np.stack([o[0] for _, _, o in found])

    def _trained_model(self) -> str:
        """The model that the parameters name; raises Unsupported where one has no meaning."""
        if self.model not in MODELS:
            raise Unsupported(
                f"model {shown(self.model)} does not train a decoder: known are {', '.join(MODELS)}"
            )
        if not isinstance(self.query, str | None) or self.query not in QUERIES:
            raise Unsupported(f"query is {shown(self.query)}: it is 'first', 'last' or None")
        if self.model == "joint-prompt" and self.query is not None:
            raise Unsupported("model 'joint-prompt' has no query: set query=None")
        whole(self.max_iter, "max_iter", least=1)
        return "joint-prompt" if self.query is None else self.model


class _BadInput(BadTokens, TypeError):
    """What scikit-learn's checks refuse: its conventions ask for a ValueError or a TypeError."""


def _three_axes(X: Any) -> Floats:
    """X (n, T, d) as contiguous finite float64."""
    with checked_by(_BadInput):
        values = check_array(
            X, dtype=np.float64, order="C", ensure_2d=False, allow_nd=True, input_name="X"
        )
    if values.ndim != 3:
        raise BadTokens(
            f"X has shape {values.shape}; it must be (n, T, d): "
            "n inputs of T tokens with d features"
        )
    return values


def _check_features(estimator: Any, values: Floats) -> None:
    """Raises BadTokens unless X has as many features as in fit."""
    if values.shape[2] != estimator.n_features_in_:
        raise BadTokens(
            f"X has {values.shape[2]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )


def _classes(y: Any, values: Floats) -> tuple[NDArray[Any], list[Floats]]:
    """The classes in order, and signs (n,): +1 for the second of two, or for each of more."""
    if y is None:
        raise BadTokens("MaxMarginAttention requires y to be passed, but the target y is None")
    with checked_by(_BadInput):
        labels = column_or_1d(y, warn=True)
        check_consistent_length(values, labels)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        classes = np.unique(labels)
    if len(classes) < 2:
        raise BadTokens(f"y has one class only, {classes[0]}: there is nothing to separate")
    wanted = classes[1:] if len(classes) == 2 else classes
    return classes, [np.where(labels == one, 1.0, -1.0) for one in wanted]


def _all(parts: list[Any]) -> Any:
    """The one array, or several stacked."""
    return parts[0] if len(parts) == 1 else np.stack(parts)


def _each(parts: list[Any]) -> Any:
    """The one result, or several as a tuple."""
    return parts[0] if len(parts) == 1 else tuple(parts)


def _sigmoid(values: Floats) -> Floats:
    """1/(1 + exp(−x)) without overflow."""
    return np.exp(-np.logaddexp(0.0, -values))


def _unsettled(found: Outcome, steps: int) -> str | None:
    """A sentence on a run at an undecided or not locally optimal selection; None for others."""
    if found.state == "undecided":
        return (
            f"after {steps} steps an input has only {found.top_attention:.3f} of its attention "
            "on one token, so the selection is undecided; try a larger max_iter or lr"
        )
    if found.state == "saturated":
        return (
            f"after {steps} steps attention is saturated on tokens that are not locally optimal: "
            "a longer run may leave them; try a larger max_iter or lr"
        )
    return None
