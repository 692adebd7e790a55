"""Build the site: python tools/site.py build/site [--fast]; any warning is an error.

--fast leaves the examples of the gallery unexecuted. Needs the extra docs: pip install '.[docs]'.
"""

import argparse
import sys
import time
from importlib.util import find_spec
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
NEEDED = {
    "sphinx": "Sphinx",
    "furo": "furo",
    "myst_parser": "myst-parser",
    "sphinx_gallery": "sphinx-gallery",
}


def main() -> int:
    """Parse, check what is installed, build; the exit code is 2 where something is missing."""
    parser = argparse.ArgumentParser(description="Build the site, offline.")
    parser.add_argument("out", type=Path, help="the folder to build it in")
    parser.add_argument("--fast", action="store_true", help="do not run the gallery's examples")
    asked = parser.parse_args()
    missing = [name for module, name in NEEDED.items() if find_spec(module) is None]
    if missing:
        print(f"The site needs {', '.join(missing)}: pip install '.[docs]'", file=sys.stderr)
        return 2
    from sphinx.cmd.build import build_main

    words = ["-W", "--keep-going", "-q", "-d", str(asked.out.with_name(f"{asked.out.name}-cache"))]
    if asked.fast:
        words += ["-D", "plot_gallery=0"]
    start = time.monotonic()
    code = build_main([*words, str(DOCS), str(asked.out)])
    print(f"{'built' if code == 0 else 'failed'} in {time.monotonic() - start:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
