"""dask: the workers of a dask.distributed scheduler."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.executors.engine import Engine, ExecutorConfig, extra
from attsvm.experiments.executors.local import cores

# Seconds in which a scheduler has to answer.
PATIENCE = 10.0


def by_dask(asked: ExecutorConfig) -> Engine:
    """The engine of the scheduler at an address.

    Its workers need this package, and the user's own files at the same paths; one that dies is
    replaced by the others.
    """
    distributed = extra("distributed", "dask")
    where = asked.address
    if where is None:
        raise Unsupported("the dask engine needs --address, the URL of its scheduler")
    clients: list[Any] = []

    def opened() -> Executor:
        try:
            client = distributed.Client(where, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise BadTokens(
                f"no dask scheduler answers at {where} within {PATIENCE:g} s: start one with "
                "`dask scheduler`, or use --engine local"
            ) from error
        clients.append(client)
        executor: Executor = client.get_executor(pure=False)
        return executor

    def stop(executor: Executor) -> None:
        executor.shutdown(wait=False)
        clients.pop().close()

    return Engine("dask", opened, window=max(2 * cores(asked.jobs), 8), stop=stop)
