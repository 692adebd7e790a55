"""The errors attsvm raises: one root, six kinds.

Each message is one sentence that says what is wrong, where (input 3, token 7), and what to try.
The command line prints the sentence and leaves with the exit code of the kind.
"""

from __future__ import annotations


class AttsvmError(Exception):
    """The root of every error raised on purpose by attsvm."""

    exit_code = 2


class BadTokens(AttsvmError, ValueError):
    """Arrays, rows or files that cannot be used as they are."""


class BadSelection(AttsvmError, ValueError):
    """A selection that does not fit its tokens, or leaves nothing to separate."""


class Inseparable(AttsvmError):
    """No matrix meets the margins: `Certificate.require` raises it, the proof in hand."""

    exit_code = 3


class NotConverged(AttsvmError):
    """The certified gap stayed above the tolerance: `Certificate.require` raises it."""

    exit_code = 4


class TooLarge(AttsvmError, MemoryError):
    """A computation that would need more memory than there is; nothing was allocated."""


class Unsupported(AttsvmError, ValueError):
    """A norm, solver or combination that does not exist here; the message lists what does."""


class ConvergenceWarning(UserWarning):
    """A solve ended before its tolerance; the certificate says how far it got."""
