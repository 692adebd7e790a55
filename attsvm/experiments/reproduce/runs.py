"""Run claims, judge them from what was saved, draw them, and keep what is finished.

The folder is described in attsvm/experiments/reproduce/folder.py. A claim whose config and code are
the ones on file is not run again. Every file is written beside and then renamed, a claim's record
last, so a killed run leaves nothing half-written and the next one goes on from there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attsvm._utils.compiled import timed
from attsvm._utils.files import disk_is_full, write_arrays, write_json, writing_to
from attsvm._utils.progress import Progress
from attsvm.errors import Unsupported
from attsvm.experiments.code_digest import code_digest
from attsvm.experiments.reproduce.draws import Draws, as_json, asked_configs
from attsvm.experiments.reproduce.folder import (
    OUTSIDE,
    PICTURES,
    Record,
    create_folder,
    gather,
    read_record,
)
from attsvm.experiments.reproduce.judging import broken, draw, empty, judged, saved_arrays
from attsvm.experiments.reproduce.outside import known_claims
from attsvm.experiments.reproduce.processes import in_processes
from attsvm.experiments.reproduce.single_runs import do_runs, seconds_of, store_of
from attsvm.experiments.studies import CLAIMS, claim_of
from attsvm.experiments.studies.claim import BadClaim, Claim, Config, NothingInside, lawful_result
from attsvm.experiments.studies.shared.needs import missing
from attsvm.experiments.studies.shared.stored import storing


def reproduce_claims(
    claims: Sequence[str] = (),
    *,
    out: str | Path,
    real: bool = False,
    quick: bool = False,
    jobs: int = 1,
    again: bool = False,
    source: str | Path | None = None,
    draws: Draws | None = None,
    watch: Progress | None = None,
    say: Progress | None = None,
) -> list[Record]:
    """The records of these claims (ids or paper letters; all without), written to the folder.

    real: the claims on real data, which are otherwise run by id alone; those whose packages or data
    are missing are left out with a sentence, and refused where an id names them. quick: small
    counts, the same checks. jobs: processes, 0 for one per core. again: run even what is finished.
    draws: other instances than the claims' own, where they have random ones. source: a Python file
    whose claims are taken in place of the package's.
    watch(id, state) is told of every change; say(sentence) of files that had to be kept aside and
    of claims that broke. A record is {id, paper, title, statement, kind, trust, verdict,
    numbers, premises, reason, gap, seconds, config, …}; of a claim that broke, the verdict is
    undecided and `error` says why. seconds are of its run alone; compile_seconds went into
    compiling its kernels, or loading compiled ones.
    """
    known = known_claims(source)
    speak = say or (lambda sentence: None)
    names = at_hand(chosen_ids(claims, known, real=real), known, named=claims, say=speak)
    chosen = [known[name] for name in names]
    configs = asked_configs(chosen, quick, draws or Draws())
    folder = create_folder(Path(out))
    tell = watch or (lambda name, state: None)
    waiting: list[str] = []
    for claim in chosen:
        if not again and _finished(folder, claim, configs[claim.id], speak):
            tell(claim.id, "on file")
        else:
            waiting.append(claim.id)
            tell(claim.id, "waiting")
    count = min(workers(jobs), len(waiting))
    given = (str(folder), quick, None if source is None else str(source), draws or Draws())
    with writing_to(folder):
        if any(known[name].runs for name in waiting):
            asked = [(known[name], configs[name]) for name in waiting]
            do_runs(asked, folder, jobs=workers(jobs), again=again, watch=tell, say=speak)
        if count > 1:
            in_processes(measure, waiting, given=given, jobs=count, tell=tell)
        else:
            for name in waiting:
                tell(name, "running")
                tell(name, measure(name, *given))
    written = gather(folder, {**CLAIMS, **known}, speak)
    ids = {claim.id for claim in chosen}
    mine = [record for record in written if record["id"] in ids]
    for record in mine:
        if "error" in record:
            speak(f"{record['id']} could not be run or judged: {record['error']}")
    return mine


def measure(
    name: str, folder: str, quick: bool, source: str | None = None, draws: Draws | None = None
) -> str:
    """Run one claim and save what it measured; the verdict, or `broken` when it raised."""
    claim = claim_of(name, known_claims(source))
    config = (draws or Draws()).config(claim, quick)
    place = Path(folder)
    about: dict[str, Any] = {"config": config, "digest": digest(claim), "quick": quick}
    if source is not None:
        about[OUTSIDE] = source
    try:
        with timed() as took, storing(store_of(place)) as store:
            result = lawful_result(claim, claim.run(config))
        before = seconds_of(store)  # of the runs that were read, which other claims may read too
        about["seconds"], about["cpu_seconds"] = took.run.wall + before, took.run.cpu + before
        about["compile_seconds"] = took.compiling.wall
        # A record of an older run does not describe these arrays.
        (place / "claims" / f"{name}.json").unlink(missing_ok=True)
        write_arrays(place / "claims" / f"{name}.npz", result, force=True)
        record = judged(claim, config, result, about)
        draw(place, claim, config, result, record)
    except Exception as error:  # whatever one claim does, the others go on
        if disk_is_full(error) or isinstance(error, BadClaim):
            raise
        if isinstance(error, NothingInside):
            record = empty(claim, config, about, error)
        else:
            record = broken(claim, config, about, error)
        for kind in PICTURES:  # the picture on file is of another run
            (place / "figures" / f"{name}{kind}").unlink(missing_ok=True)
        (place / "claims" / f"{name}.motion.json").unlink(missing_ok=True)
    write_json(place / "claims" / f"{name}.json", record)
    return "broken" if "error" in record else str(record["verdict"])


def workers(jobs: int) -> int:
    """How many processes are asked for; 0: one per core."""
    return jobs or os.cpu_count() or 1


def chosen_ids(
    names: Sequence[str], known: Mapping[str, Claim] = CLAIMS, *, real: bool | None = False
) -> list[str]:
    """The known claims of these ids and paper letters, in their order; all without names.

    real: whether letters, and no names, mean the claims on real data or the others; None: both.
    """
    meant = [key for key, claim in known.items() if real is None or claim.real == real]
    if not names:
        return meant
    wanted: set[str] = set()
    papers = {claim.paper for claim in known.values()}
    for name in names:
        if name in papers:
            wanted |= {key for key in meant if known[key].paper == name}
        else:
            wanted.add(claim_of(name, known).id)
    return [key for key in known if key in wanted]


def at_hand(
    names: Sequence[str], known: Mapping[str, Claim], *, named: Sequence[str] = (), say: Progress
) -> list[str]:
    """Those of the claims whose packages and data are here; the others are named, one sentence.

    Raises Unsupported when an id among `named` asks for one of the others, or when none is left.
    """
    lacking = {name: missing(known[name].needs) for name in names}
    left = [name for name in names if not lacking[name]]
    for name in names:
        if lacking[name] and (name in named or not left):
            raise Unsupported(f"{name} cannot be run: {lacking[name]}")
    for words in dict.fromkeys(filter(None, lacking.values())):
        out = [name for name in names if lacking[name] == words]
        say(f"{', '.join(out)} left out: {words}")
    return left


def _finished(folder: Path, claim: Claim, config: Config, say: Progress) -> bool:
    """Whether the claim is on file with this config and this code, its arrays readable.

    Pictures that are missing are drawn again from the arrays.
    """
    record = read_record(folder / "claims" / f"{claim.id}.json", say)
    if record is None or "error" in record or record["config"] != as_json(config):
        return False
    if record.get("digest") != digest(claim):
        return False
    arrays = saved_arrays(folder, claim.id, say)
    if arrays is None:
        return False
    drawn = [folder / "figures" / f"{claim.id}{kind}" for kind in PICTURES]
    if claim.motion is not None:
        drawn.append(folder / "claims" / f"{claim.id}.motion.json")
    if not all(file.exists() and file.stat().st_size for file in drawn):
        draw(folder, claim, config, arrays, record)
    return True


def digest(claim: Claim) -> str:
    """A hash of the claim's module and of every module of the package that it imports."""
    return code_digest(claim.module)
