"""slurm: one job of a Slurm cluster per task, sent by submitit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from attsvm.errors import BadTokens
from attsvm.experiments.executors.engine import Engine, ExecutorConfig, extra, only
from attsvm.experiments.executors.local import one_thread_each

# Jobs in flight where none are asked for, and seconds between two looks at them.
_JOBS = 64
_LOOK = 1.0
# What a job asks for unless the options say otherwise.
_USUAL: dict[str, Any] = {"timeout_min": 60, "cpus_per_task": 1, "name": "attsvm"}


def by_jobs(asked: ExecutorConfig) -> Engine:
    """The engine of a Slurm cluster; its folder must be one that the nodes see.

    options: what submitit takes, such as slurm_partition or timeout_min; cluster=local runs the
    jobs on this machine instead.
    """
    only(asked, "slurm", "options")
    submitit = extra("submitit", "slurm")
    if asked.folder is None:
        raise BadTokens("the slurm engine needs a folder for its job files")
    options = {name: _value(text) for name, text in asked.options.items()}
    where = str(options.pop("cluster", "slurm"))
    folder = asked.folder

    def opened() -> Executor:
        return Jobs(_sender(submitit, folder, where, options))

    return Engine("slurm", opened, window=asked.jobs or _JOBS)


def job_script(folder: Path, options: dict[str, str]) -> str:
    """The script that submitit would send for each task with these options."""
    extra("submitit", "slurm")
    from submitit.slurm import slurm

    given = {**_USUAL, **{name: _value(text) for name, text in options.items()}}
    given.pop("cluster", None)
    names = {"timeout_min": "time", "name": "job_name", "tasks_per_node": "ntasks_per_node"}
    if "mem_gb" in given:
        given["mem"] = f"{given.pop('mem_gb')}GB"
    fields = {names.get(name, name.removeprefix("slurm_")): v for name, v in given.items()}
    command = f"python -u -m submitit.core._submit {folder.resolve()}"
    try:
        return str(slurm._make_sbatch_string(command=command, folder=folder, **fields))
    except TypeError as error:
        raise BadTokens(f"submitit does not take these options ({error})") from error


def _value(text: str) -> Any:
    """A whole number where the text is one."""
    return int(text) if text.lstrip("-").isdigit() else text


def _sender(submitit: Any, folder: Path, where: str, options: dict[str, Any]) -> Any:
    """submitit's executor, with the parameters of the jobs."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        made = submitit.AutoExecutor(folder=folder, cluster=where)
        made.update_parameters(**{**_USUAL, **options})
    except (RuntimeError, ValueError, NameError, TypeError) as error:
        raise BadTokens(f"no job can be sent to {where}: {error}") from error
    return made


class Jobs(Executor):
    """An executor whose Futures follow submitit's jobs, which a thread looks at."""

    def __init__(self, sender: Any) -> None:
        self.sender = sender
        self.waiting: dict[Future[Any], Any] = {}
        self.guard = threading.Lock()
        self.ended = threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The Future of fn(*args, **kwargs) in a job of its own."""
        future: Future[Any] = Future()
        with one_thread_each():
            job = self.sender.submit(fn, *args, **kwargs)
        with self.guard:
            self.waiting[future] = job
        return future

    def _look(self) -> None:
        while not self.ended.wait(_LOOK):
            with self.guard:
                pairs = list(self.waiting.items())
            for future, job in pairs:
                if not job.done():
                    continue
                with self.guard:
                    self.waiting.pop(future, None)
                try:
                    future.set_result(job.result())
                except Exception as error:  # handed on to whoever asks for the result
                    future.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stops looking, and cancels the jobs that are left."""
        self.ended.set()
        with self.guard:
            left = list(self.waiting.values())
            self.waiting.clear()
        for job in left:
            job.cancel()
