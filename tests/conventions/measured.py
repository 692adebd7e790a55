"""The house in figures: top-level names, lengths, parameters, and the modules on three call paths.

    python -m tests.conventions.measured [ROOT]

ROOT is the folder that holds another version of the package, for a comparison. Compiled kernels
are called from Python without a frame of their own: a module of kernels alone is not counted, nor
what runs only while modules are loaded.
"""

import ast
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

MOST = 8  # parameters

PATHS = {
    'solve(norm="nuclear")': (
        "import attsvm, numpy as np\n"
        "t = attsvm.Tokens(np.random.default_rng(0).standard_normal((3, 4, 5)), queries='first')\n"
        "p = attsvm.Problem.of(t, attsvm.Selection.of(t, [0, 1, 2]))\n",
        "attsvm.solve(p, norm='nuclear')",
    ),
    "attsvm train": (
        "import sys\nfrom attsvm.cli import main\n"
        "from pathlib import Path\n"
        "import tempfile\n"
        "f = Path(tempfile.mkdtemp()) / 'a.npz'\n"
        "from attsvm.datasets import EXAMPLES\nimport numpy as np\n"
        "np.savez(f, **EXAMPLES['path-picture-1']())\n"
        "sys.argv = ['attsvm', 'train', str(f), '--steps', '200', '--json']\n",
        "main()",
    ),
    "attsvm reproduce B.rank": (
        "import sys, tempfile\nfrom attsvm.cli import main\n"
        "sys.argv = ['attsvm', 'reproduce', 'B.rank', '--quick', '--jobs', '1', '--out',"
        " tempfile.mkdtemp()]\n",
        "main()",
    ),
}

PROBE = """
import contextlib, io, os, sys
{setup}
seen, loading = set(), [0]
def watch(frame, event, arg):
    if frame.f_code.co_name == "<module>":
        loading[0] += (event == "call") - (event == "return")
    elif event == "call" and not loading[0]:
        name = frame.f_globals.get("__name__") or ""
        if name.startswith("attsvm"):
            seen.add(name)
import threading
sys.setprofile(watch); threading.setprofile(watch)
quiet = io.StringIO()
with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
    with contextlib.suppress(SystemExit):
        {call}
sys.setprofile(None)
import json
print(json.dumps(sorted(seen)))
"""


def called(root: Path, setup: str, call: str) -> list[str]:
    """The modules of the package whose functions run in a call."""
    env = os.environ | {"PYTHONPATH": str(root)}
    text = PROBE.format(setup=setup, call=call)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, env=env, cwd=root
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def parameters(tree: ast.Module) -> list[int]:
    """The number of parameters of every function."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        len(n.args.posonlyargs + n.args.args + n.args.kwonlyargs)
        for n in ast.walk(tree)
        if isinstance(n, kinds)
    ]


def main(root: Path) -> None:
    """Print the figures of the package under this folder."""
    package = root / "attsvm"
    files = sorted(p for p in package.rglob("*.py") if "__pycache__" not in p.parts)
    top = sorted(
        p for p in package.iterdir() if p.name != "__pycache__" and not p.name.endswith("typed")
    )
    modules = [p.name for p in top if p.suffix == ".py"]
    folders = [p.name for p in top if p.is_dir()]
    print(f"top level: {len(modules)} files, {len(folders)} folders: {' '.join(folders)}")
    lengths = {p: len(p.read_text("utf-8").splitlines()) for p in files}
    longest = max(lengths, key=lambda p: lengths[p])
    bodies = [n for p, n in lengths.items() if p.name != "__init__.py"]
    print(
        f"{len(files)} files, {sum(lengths.values())} lines, median {statistics.median(bodies)}, "
        f"longest {longest.relative_to(root)} {lengths[longest]}"
    )
    counts = [n for p in files for n in parameters(ast.parse(p.read_text("utf-8")))]
    many = sum(n > MOST for n in counts)
    print(f"functions with over {MOST} parameters: {many} of {len(counts)}, most {max(counts)}")
    print(f"`# fmt: skip`: {sum(p.read_text('utf-8').count('# fmt: skip') for p in files)}")
    for name, (setup, call) in PATHS.items():
        found = called(root, setup, call)
        print(f"{name}: {len(found)} modules")
        print("   " + " ".join(m.removeprefix("attsvm.") for m in found))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
