"""The errors attsvm raises: one root, six kinds.

Each message is one sentence that says what is wrong, where (input 3, token 7), and what to try.
The command line prints the sentence and leaves with the exit code of the kind.
"""

from __future__ import annotations


class AttsvmError(Exception):
    """The root of every error raised on purpose by attsvm.

    >>> import attsvm
    >>> try:
    ...     attsvm.norm_of("euclid")
    ... except attsvm.AttsvmError as error:
    ...     print(type(error).__name__, error.exit_code)
    Unsupported 2
    """

    exit_code = 2


class BadTokens(AttsvmError, ValueError):
    """Arrays, rows or files that cannot be used as they are.

    >>> import attsvm
    >>> try:
    ...     attsvm.Tokens([[[1.0, float("nan")]]])
    ... except attsvm.BadTokens as error:
    ...     print(error)
    X[0, 0, 1] is nan: entries must be finite and below 1e+75
    """


class BadSelection(AttsvmError, ValueError):
    """A selection that does not fit its tokens, or leaves nothing to separate.

    >>> import attsvm
    >>> try:
    ...     attsvm.Selection.of(attsvm.Tokens([[[1.0], [2.0]]]), [2])
    ... except attsvm.BadSelection as error:
    ...     print(error)
    alpha[0] is 2; tokens run from 0 to 1
    """


class Infeasible(AttsvmError):
    """No matrix satisfies the constraints: `Certificate.require` raises it, with the proof.

    >>> import attsvm
    >>> between = attsvm.Tokens([[[1.0], [-1.0], [0.0]]])
    >>> try:
    ...     attsvm.solve(attsvm.Problem.of(between, [2])).require()
    ... except attsvm.Infeasible as error:
    ...     print(error)
    no W satisfies these constraints: exact Farkas certificate
    """

    exit_code = 3


class NotConverged(AttsvmError):
    """The certified gap stayed above the tolerance: `Certificate.require` raises it.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> problem = attsvm.Problem.of(tokens, [0])
    >>> try:
    ...     attsvm.certify(problem, "frobenius", [[-1.0], [1.5]]).require()
    ... except attsvm.NotConverged as error:
    ...     print(error)
    stopped early: frobenius norm in [1, 1.20185042515], gap 2.0e-01 (asked for 1.0e-08)
    """

    exit_code = 4


class TooLarge(AttsvmError, MemoryError):
    """A computation that would need more memory than there is; nothing was allocated.

    >>> import attsvm
    >>> issubclass(attsvm.TooLarge, attsvm.AttsvmError), attsvm.TooLarge.exit_code
    (True, 2)
    """


class Unsupported(AttsvmError, ValueError):
    """A norm, solver or combination that does not exist here; the message lists what does.

    >>> import attsvm
    >>> try:
    ...     attsvm.predict("weight", "newton")
    ... except attsvm.Unsupported as error:
    ...     print(str(error).partition(":")[0])
    unknown optimizer 'newton'
    """


class ConvergenceWarning(UserWarning):
    """A solve ended before its tolerance; the certificate says how far it got.

    >>> import warnings
    >>> import attsvm
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter(
    ...         "error", attsvm.ConvergenceWarning
    ...     )  # now a solve that stops raises
    >>> issubclass(attsvm.ConvergenceWarning, UserWarning)
    True
    """
