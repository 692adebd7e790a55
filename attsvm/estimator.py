"""MaxMarginAttention: one layer of attention and its decoder as a scikit-learn classifier.

Needs scikit-learn (the extra `sklearn`); `import attsvm` does not load it.
"""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attsvm.errors import BadTokens, ConvergenceWarning, Unsupported
from attsvm.ground.arrays import Floats
from attsvm.losses import Loss
from attsvm.models.gradient.attention import attend
from attsvm.norms import Norm, norm_of
from attsvm.problem.tokens import Tokens
from attsvm.rules import Rule
from attsvm.solvers.front import solve
from attsvm.theory.outcomes import Outcome, outcome
from attsvm.training.front import train

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import assert_all_finite
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import (
        check_array,
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
    )
except ImportError as error:
    raise Unsupported("attsvm.estimator needs scikit-learn: pip install scikit-learn") from error

MODELS = ("joint-weight", "joint-prompt")
QUERIES = ("first", "last", None)


class MaxMarginAttention(ClassifierMixin, BaseEstimator):
    """A binary classifier: softmax attention over the tokens of an input, read by a linear decoder.

    The decision value of an input with tokens x_1 … x_T and query z is

        v·Σ_t s_t x_t,   s = softmax(x_t·W z),

    positive for the second class. W and v are trained together by `rule` on the mean loss; there
    is no intercept. What the attention selects is compared with the max-margin problem of the
    selected tokens, and a ConvergenceWarning says when they are undecided or not locally optimal.

    model: "joint-weight" trains W (d, d); "joint-prompt" a vector p (d,) in place of W z, and is
    what a joint weight becomes when query is None. query: the token that asks, "first" or "last",
    or None. rule, loss: by name, or a Rule and a Loss of one's own; init, seed: as in
    `attsvm.train`; lr, max_iter: step size and number of steps. norm: of the certificate; None
    takes the norm that theory predicts for the rule.

    After fit: classes_ (2,); coef_ v (d,); attention_ W (d, d) or p (d,); n_iter_; n_features_in_
    d; selection_ (n,) the token of each training input with the most attention; path_ the run;
    certificate_ the max-margin problem of the selection (None when there is one token only);
    outcome_ the end of the run against its predicted limit; state_ "undecided", "saturated", "at a
    locally optimal selection", "converges" or "unknown", as in `attsvm.outcome`.

    >>> from attsvm.data import EXAMPLES
    >>> a = EXAMPLES["joint-tight"]()
    >>> fitted = MaxMarginAttention(query=None).fit(a["X"], a["y"])
    >>> fitted.state_, fitted.selection_
    ('at a locally optimal selection', array([1, 1, 1]))
    >>> fitted.certificate_.W.ravel().round(6)
    array([1.333333, 0.333333])
    """

    def __init__(
        self,
        *,
        model: str = "joint-weight",
        rule: str | Rule = "ngd",
        norm: str | Norm | None = None,
        query: str | None = "last",
        loss: str | Loss = "logistic",
        lr: float = 0.1,
        max_iter: int = 2000,
        init: str | dict[str, Any] = "default",
        seed: int = 0,
    ) -> None:
        self.model = model
        self.rule = rule
        self.norm = norm
        self.query = query
        self.loss = loss
        self.lr = lr
        self.max_iter = max_iter
        self.init = init
        self.seed = seed

    def fit(self, X: Any, y: Any) -> Self:
        """The estimator itself, trained on X (n, T, d) and the labels y (n,) of two classes."""
        model = self._trained_model()
        norm = None if self.norm is None else norm_of(self.norm)
        values = _three_axes(X)
        classes, signs = _two_classes(y, values)
        tokens = Tokens(values, queries=self.query, labels=signs)
        path = train(
            tokens,
            model=model,
            rule=self.rule,
            loss=self.loss,
            lr=float(self.lr),
            steps=int(self.max_iter),
            seed=int(self.seed),
            init=self.init,
        )
        found = outcome(path, tokens)
        if found.limit.norm is None and norm is not None:
            found = outcome(path, tokens, norm=norm)
        certificate = found.certificate
        if norm is not None and certificate is not None and certificate.norm != norm:
            certificate = solve(certificate.problem, norm)
        end = path.at(len(path.steps) - 1)
        self.classes_ = classes
        self.coef_ = end["v"][0]
        self.attention_ = end["p" if model == "joint-prompt" else "W"][0]
        self.n_iter_ = int(path.steps[-1])
        self.n_features_in_ = tokens.d
        self.selection_ = found.selection
        self.path_ = path
        self.outcome_ = found
        self.certificate_ = certificate
        self.state_ = found.state
        self._query = self.query  # that of the weights, whatever the parameter becomes
        if path.diverged < 0 and (unsettled := _unsettled(found, self.n_iter_)):
            warnings.warn(unsettled, ConvergenceWarning, stacklevel=2)
        return self

    def decision_function(self, X: Any) -> Floats:
        """v·o of each input (n,), positive for classes_[1]; exact when attention saturates."""
        return self._attend(X)[1] @ self.coef_

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each input (n,)."""
        values = self.decision_function(X)
        return self.classes_[(values > 0).astype(np.int64)]

    def attention(self, X: Any) -> Floats:
        """The attention probabilities (n, T) of each input; T may differ from that of fit."""
        return np.exp(self._attend(X)[0])

    def _attend(self, X: Any) -> tuple[Floats, Floats]:
        """The log attention (n, T) and the pooled tokens (n, d)."""
        check_is_fitted(self)
        values = _three_axes(X)
        if values.shape[2] != self.n_features_in_:
            raise BadTokens(
                f"X has {values.shape[2]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        tokens = Tokens(values, queries=self._query)
        W = self.attention_.reshape(1, self.n_features_in_, -1)
        stacked = values[None]
        logs, _, pooled = attend(stacked, stacked, tokens.queries[None], tokens.present()[None], W)
        return logs[0], pooled[0]

    def _trained_model(self) -> str:
        """The model that the parameters name; raises Unsupported where one has no meaning."""
        kinds: tuple[tuple[str, tuple[type, ...]], ...] = (
            ("model", (str,)),
            ("rule", (str, Rule)),
            ("loss", (str, Loss)),
        )
        for name, kind in kinds:
            if not isinstance(value := getattr(self, name), kind):
                also = "" if len(kind) == 1 else f", or as a {kind[1].__name__}"
                raise Unsupported(f"{name} is {value!r}: it is given by name{also}")
        if self.model not in MODELS:
            raise Unsupported(
                f"model {self.model!r} does not train a decoder: known are {', '.join(MODELS)}"
            )
        if not isinstance(self.query, str | None) or self.query not in QUERIES:
            raise Unsupported(f"query is {self.query!r}: it is 'first', 'last' or None")
        if self.model == "joint-prompt" and self.query is not None:
            raise Unsupported("model 'joint-prompt' has no query: set query=None")
        lr: Any = self.lr
        if not (isinstance(lr, Real) and 0 < float(lr) < np.inf):
            raise Unsupported(f"lr is {lr!r}: it must be a positive number")
        for name, least in (("max_iter", 1), ("seed", 0)):
            value = getattr(self, name)
            if not (isinstance(value, Integral) and int(value) >= least):
                raise Unsupported(f"{name} is {value!r}: it must be a whole number from {least} on")
        if not isinstance(self.init, str | dict):
            raise Unsupported(f"init is {self.init!r}: it is a name or arrays by block name")
        return "joint-prompt" if self.query is None else self.model

    def __sklearn_tags__(self) -> Any:
        """Three axes and two classes (read by scikit-learn 1.6 and later)."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.classifier_tags.multi_class = False
        return tags


def _three_axes(X: Any) -> Floats:
    """X (n, T, d) as contiguous finite float64."""
    values = check_array(
        X, dtype=np.float64, order="C", ensure_2d=False, allow_nd=True, input_name="X"
    )
    if values.ndim != 3:
        raise BadTokens(
            f"X has shape {values.shape}; it must be (n, T, d): "
            "n inputs of T tokens with d features"
        )
    return values


def _two_classes(y: Any, values: Floats) -> tuple[NDArray[Any], Floats]:
    """The two classes in order, and the labels (n,) as -1 for the first and +1 for the second."""
    if y is None:
        raise BadTokens("MaxMarginAttention requires y to be passed, but the target y is None")
    labels = column_or_1d(y, warn=True)
    check_consistent_length(values, labels)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    kind = type_of_target(labels, input_name="y")
    if kind != "binary":
        raise BadTokens(
            f"Only binary classification is supported. The type of the target is {kind}."
        )
    classes = np.unique(labels)
    if len(classes) != 2:
        raise BadTokens(f"y has one class only, {classes[0]}: there is nothing to separate")
    return classes, np.where(labels == classes[1], 1.0, -1.0)


def _unsettled(found: Outcome, steps: int) -> str | None:
    """A sentence on a run at an undecided or not locally optimal selection; None for others."""
    if found.state == "undecided":
        return (
            f"after {steps} steps the least sure input has {found.sureness:.3f} of its attention "
            "on one token, so the selection is undecided; try a larger max_iter or lr"
        )
    if found.state == "saturated":
        return (
            f"after {steps} steps attention is saturated on tokens that are not locally optimal: "
            "a longer run may leave them; try a larger max_iter or lr"
        )
    return None
