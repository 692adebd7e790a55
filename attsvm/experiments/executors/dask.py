"""dask: a cluster of dask.distributed, or one of processes of this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from attsvm._utils.parallel import GUARD, leave_unguarded
from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.executors.engine import Engine, ExecutorConfig, extra, only
from attsvm.experiments.executors.local import THREADS, cores

# Seconds in which a scheduler has to answer.
PATIENCE = 10.0


def by_dask(asked: ExecutorConfig) -> Engine:
    """The engine of the scheduler at an address; without one, of a cluster that starts here.

    Its workers need this package, and the user's own files at the same paths.
    """
    only(asked, "dask", "address")
    distributed = extra("distributed", "dask")

    def opened() -> Executor:
        return Dask(distributed, asked)

    return Engine("dask", opened, window=max(2 * cores(asked.jobs), 8))


class Dask(Executor):
    """The executor of a dask client, and of the cluster that was started for it."""

    def __init__(self, distributed: Any, asked: ExecutorConfig) -> None:
        self.cluster: Any = None
        where = asked.address
        if where is None:
            leave_unguarded()
            import dask

            # Set in the workers before they load their libraries.
            names = {f"distributed.nanny.pre-spawn-environ.{name}": 1 for name in THREADS}
            try:
                with dask.config.set(names):
                    self.cluster = distributed.LocalCluster(
                        n_workers=cores(asked.jobs),
                        threads_per_worker=1,
                        dashboard_address=None,
                        silence_logs=logging.CRITICAL,
                    )
            except RuntimeError as error:
                raise Unsupported(f"the workers of dask did not start ({error}): {GUARD}") from None
            where = self.cluster.scheduler_address
        try:
            self.client = distributed.Client(where, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise BadTokens(
                f"no dask scheduler answers at {where} within {PATIENCE:g} s: start one with "
                "`dask scheduler`, or leave --address out for a cluster on this machine"
            ) from error
        self.inner = self.client.get_executor(pure=False)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The Future of fn(*args, **kwargs) on some worker; one that dies is stood in for."""
        future: Future[Any] = self.inner.submit(fn, *args, **kwargs)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the client, and the cluster where it was started here."""
        self.inner.shutdown(wait=wait and not cancel_futures)
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()
