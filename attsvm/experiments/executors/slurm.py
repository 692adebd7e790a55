"""slurm: one job of a Slurm cluster per task, sent by submitit."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from attsvm.errors import BadTokens
from attsvm.experiments.executors.engine import Engine, ExecutorConfig, extra
from attsvm.experiments.executors.local import one_thread_each

# Jobs in flight where none are asked for.
_JOBS = 64
# What a job asks for unless the options say otherwise.
_USUAL: dict[str, Any] = {"timeout_min": 60, "cpus_per_task": 1, "name": "attsvm"}


def by_jobs(asked: ExecutorConfig) -> Engine:
    """The engine of a Slurm cluster; its folder must be one that the nodes see.

    options: what submitit takes, such as slurm_partition or timeout_min; cluster=local runs the
    jobs on this machine instead.
    """
    submitit = extra("submitit", "slurm")
    folder = asked.folder
    if folder is None:
        raise BadTokens("the slurm engine needs a folder for its job files")
    options = {name: int(text) if text.lstrip("-").isdigit() else text
               for name, text in asked.options.items()}  # fmt: skip
    where = str(options.pop("cluster", "slurm"))
    jobs = asked.jobs or _JOBS

    def opened() -> Executor:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            sender = submitit.AutoExecutor(folder=folder, cluster=where)
            sender.update_parameters(**{**_USUAL, **options})
        except (RuntimeError, ValueError, NameError, TypeError) as error:
            raise BadTokens(f"no job can be sent to {where}: {error}") from error
        return Jobs(sender, jobs)

    return Engine("slurm", opened, window=jobs)


class Jobs(ThreadPoolExecutor):
    """An executor whose threads each wait for one of submitit's jobs."""

    def __init__(self, sender: Any, jobs: int) -> None:
        super().__init__(jobs)
        self.sender = sender
        self.sent: list[Any] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The Future of fn(*args, **kwargs) in a job of its own."""
        with one_thread_each():
            job = self.sender.submit(fn, *args, **kwargs)
        self.sent.append(job)
        return super().submit(job.result)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel the jobs that are left."""
        for job in self.sent:
            if not job.done():
                job.cancel()
        super().shutdown(wait, cancel_futures=cancel_futures)
