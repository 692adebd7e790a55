"""Parts of the package that need an extra are left out of the doctests without it."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["attsvm/torch/*.py"]
