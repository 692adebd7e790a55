"""Parts of the package that need an extra are left out of the doctests without it."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["attsvm/torch/*.py"]
if not find_spec("transformers"):
    collect_ignore_glob += [
        f"attsvm/inspection/{name}.py" for name in ("capturing", "change", "inspection", "models")
    ]
