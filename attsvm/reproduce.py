"""reproduce(): run claims, judge them from what was saved, draw them, and keep what is finished.

A folder holds, for each claim, `claims/ID.npz` (what was measured) and `claims/ID.json` (config,
code digest, seconds); `results.json` lists every verdict; `figures/ID.svg` and `.png`. A claim
whose config and code are the ones on file is not run again. Every file is written beside and then
renamed, so a killed run leaves nothing half-written.
"""

from __future__ import annotations

import ast
import errno
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict
from functools import cache
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from attsvm.archive import load_arrays, write_arrays
from attsvm.claims import CLAIMS, claim_of
from attsvm.claims.claim import Claim, Config, Result, config_hash, describe
from attsvm.errors import AttsvmError, BadTokens
from attsvm.version import __version__

# The layout of the folder; a folder of another layout is not touched.
FORMAT = 1

Watch = Callable[[str, str], None]  # (claim id, state: waiting, running, kept, holds, …)


def reproduce(
    claims: Sequence[str] = (),
    *,
    out: str | Path,
    quick: bool = False,
    jobs: int = 1,
    again: bool = False,
    watch: Watch | None = None,
) -> list[dict[str, Any]]:
    """The records of these claims (ids or paper letters; all without), written to the folder.

    quick: small counts, the same checks. jobs: processes. again: run even what is finished.
    watch(id, state) is told of every change. A record is {id, paper, title, statement, kind,
    trust, verdict, numbers, premises, reason, gap, seconds, config, …}.
    """
    folder = prepared(Path(out))
    chosen = [claim_of(name) for name in chosen_ids(claims)]
    tell = watch or (lambda name, state: None)
    waiting: list[str] = []
    for claim in chosen:
        config = claim.quick if quick else claim.full
        if not again and _finished(folder, claim, config):
            tell(claim.id, "kept")
        else:
            waiting.append(claim.id)
            tell(claim.id, "waiting")
    if jobs > 1 and len(waiting) > 1:
        _in_processes(waiting, folder, quick, jobs, tell)
    else:
        for name in waiting:
            tell(name, "running")
            tell(name, measure(name, str(folder), quick))
    written = gather(folder)
    ids = {claim.id for claim in chosen}
    return [record for record in written if record["id"] in ids]


def _in_processes(waiting: list[str], folder: Path, quick: bool, jobs: int, tell: Watch) -> None:
    """Run the claims in `jobs` processes, the slowest known ones first."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        queue = list(waiting)
        running: dict[Future[str], str] = {}
        while queue or running:
            while queue and len(running) < jobs:
                name = queue.pop(0)
                tell(name, "running")
                running[pool.submit(measure, name, str(folder), quick)] = name
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                tell(running.pop(future), future.result())


def measure(name: str, folder: str, quick: bool) -> str:
    """Run one claim and save what it measured; the verdict."""
    claim = claim_of(name)
    config = claim.quick if quick else claim.full
    wall, cpu = time.perf_counter(), time.process_time()
    result = claim.run(config)
    seconds = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    place = Path(folder)
    try:
        write_arrays(place / "claims" / f"{name}.npz", result, force=True)
        about = {"config": config, "digest": digest(claim), "quick": quick, **seconds}
        record = judged(claim, config, result, about)
        draw(place, claim, config, result, record)
        write_json(place / "claims" / f"{name}.json", record)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise BadTokens(
                f"no space is left for {name} in {folder}; what was finished before it is kept"
            ) from error
        raise
    return str(record["verdict"])


def judged(claim: Claim, config: Config, result: Result, about: dict[str, Any]) -> dict[str, Any]:
    """The record of a claim, judged from its result."""
    found = claim.check(config, result)
    return {
        "id": claim.id, "paper": claim.paper, "title": claim.title, "kind": claim.kind,
        "trust": claim.trust, "statement": claim.statement, "verdict": found.verdict,
        "numbers": [describe(test) for test in found.tests], "premises": found.premises,
        "judged": found.judged, "gap": found.gap, "reason": found.reason,
        "differs": claim.differs, "reference": claim.reference, "hash": config_hash(config),
        "version": __version__, **about,
    }  # fmt: skip


def draw(
    folder: Path, claim: Claim, config: Config, result: Result, record: dict[str, Any]
) -> None:
    """Write the claim's picture as SVG and PNG, captioned, and its moving picture's data."""
    from attsvm.report.style import QUIET, look

    with look():
        figure = claim.plot(config, result)
        gap = record["gap"]
        proof = "no solution used" if gap == 0.0 else f"certified gap ≤ {gap:.1e}"
        figure.text(
            0.01, 0.012, f"{claim.id} · {record['verdict']} · config {record['hash']} · {proof}",
            fontsize=7.5, color=QUIET,
        )  # fmt: skip
        for kind in ("svg", "png"):
            target = folder / "figures" / f"{claim.id}.{kind}"
            beside = target.with_name(f".{target.name}.part")
            figure.savefig(beside, format=kind, metadata={"Date": None} if kind == "svg" else None)
            os.replace(beside, target)
    motion = folder / "claims" / f"{claim.id}.motion.json"
    if claim.motion is not None:
        write_json(motion, asdict(claim.motion(config, result)))


def gather(folder: Path) -> list[dict[str, Any]]:
    """The records on file, in the order of the registry; results.json is written from them."""
    records = [
        record
        for name in CLAIMS
        if (record := _record(folder / "claims" / f"{name}.json")) is not None
    ]
    write_json(folder / "results.json", records)
    return records


def prepared(folder: Path) -> Path:
    """The folder, made or checked: one of another layout is refused."""
    stamp = folder / "attsvm.json"
    if folder.exists() and not folder.is_dir():
        raise BadTokens(f"{folder} is a file; give a folder")
    if stamp.exists():
        try:
            found = json.loads(stamp.read_text()).get("format")
        except (ValueError, AttributeError):
            found = None
        if found != FORMAT:
            raise BadTokens(
                f"{folder} was written by another version (layout {found}, this one writes "
                f"{FORMAT}); give another folder"
            )
    elif folder.exists() and any(folder.iterdir()):
        raise BadTokens(f"{folder} holds other files; give an empty or a new folder")
    for part in ("claims", "figures"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    write_json(stamp, {"format": FORMAT})
    return folder


def chosen_ids(names: Sequence[str]) -> list[str]:
    """The claims of these ids and paper letters, in the order of the registry; all without."""
    wanted: set[str] = set()
    papers = {claim.paper for claim in map(claim_of, CLAIMS)}
    for name in names:
        if name in papers:
            wanted |= {key for key in CLAIMS if claim_of(key).paper == name}
        else:
            wanted.add(claim_of(name).id)
    return [key for key in CLAIMS if not names or key in wanted]


def _finished(folder: Path, claim: Claim, config: Config) -> bool:
    """Whether the claim is on file with this config and this code, its arrays readable."""
    record = _record(folder / "claims" / f"{claim.id}.json")
    if record is None or record.get("config") != json.loads(json.dumps(config)):
        return False
    if record.get("digest") != digest(claim):
        return False
    arrays = folder / "claims" / f"{claim.id}.npz"
    try:
        load_arrays(arrays)
    except AttsvmError:
        _aside(arrays)
        return False
    return all((folder / "figures" / f"{claim.id}.{kind}").exists() for kind in ("svg", "png"))


def _record(file: Path) -> dict[str, Any] | None:
    """The record in this file; None when there is none. A broken one is kept aside."""
    if not file.exists():
        return None
    try:
        record = json.loads(file.read_text())
        if isinstance(record, dict) and {"id", "verdict", "config"} <= set(record):
            return record
    except ValueError:
        pass
    _aside(file)
    return None


def _aside(file: Path) -> None:
    """Move a broken file out of the way, its content kept."""
    if file.exists():
        os.replace(file, file.with_name(f"{file.name}.broken"))


def write_json(file: Path, content: Any) -> None:
    """Write the file in one move."""
    beside = file.with_name(f".{file.name}.part")
    beside.write_text(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=True) + "\n")
    os.replace(beside, file)


def digest(claim: Claim) -> str:
    """A hash of the claim's module and of every module of the package that it imports."""
    seen: set[str] = set()
    todo = [claim.module]
    while todo:
        module = todo.pop()
        if module not in seen:
            seen.add(module)
            todo += _imports(module)
    whole = hashlib.sha256()
    for module in sorted(seen):
        whole.update(_source(module))
    return whole.hexdigest()[:16]


@cache
def _source(module: str) -> bytes:
    spec = find_spec(module)
    return b"" if spec is None or spec.origin is None else Path(spec.origin).read_bytes()


@cache
def _imports(module: str) -> tuple[str, ...]:
    """The package's modules that a module names in its imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(_source(module))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attsvm"):
            base = str(node.module)
            found.add(base)
            found |= {f"{base}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("attsvm")}
    return tuple(name for name in found if _is_module(name))


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ModuleNotFoundError, AttributeError):
        return False
