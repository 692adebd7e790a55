"""The version number, written here alone, and how optional parts are installed."""

__version__ = "0.3.0"


def install(*extras: str) -> str:
    """The command that installs optional parts of the package, for messages.

    The package is not on an index yet: it is installed from a clone.

    >>> install("torch")
    "pip install '.[torch]' in a clone of attsvm"
    """
    return f"pip install '.[{','.join(extras)}]' in a clone of attsvm"
