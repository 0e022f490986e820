"""Where a portfolio's algorithms run: in this process, on all its cores, or on a Dask cluster."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    InvalidStateError,
    ThreadPoolExecutor,
)
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from cnc.errors import CncError, InputError

CONNECT_TIMEOUT_S = 10

_CHOICES = "local, local:N for N processes, or dask://HOST:PORT"
_OURS = "tsn-control-plane"  # other versions would come to another plan


@contextmanager
def open_executor(where: str) -> Iterator[Executor | None]:
    """What runs calls at `where`, until the block ends; None is this process itself.

    `local` (or nothing) is a process for each core this one may use, `local:N` is N processes,
    `dask://HOST:PORT` the workers of the Dask scheduler there. Calls that still run when the block
    ends are cancelled; a Dask worker comes to the end of the one it has begun.

    Whoever reaches the port of a Dask scheduler can run any code on its workers, and the scheduler
    any code here: use it on a network you trust, or with TLS. Dask's own configuration files say
    so for both sides (`distributed.comm.default-scheme: tls` and `distributed.comm.tls`).

    InputError: `where` is none of these, or Dask is not installed. CncError: no scheduler answers,
    its workers do not fit, or what ran there died.
    """
    opened: AbstractContextManager[Executor | None]
    match where.partition(":"):
        case ("" | "local", "", ""):
            opened = _open_local(len(os.sched_getaffinity(0)))
        case ("local", ":", count):
            opened = _open_local(_process_count(where, count))
        case ("dask", ":", _):
            opened = _open_dask(where)
        case _:
            raise InputError(f"cannot use '{where}': no such place", hint=f"use {_CHOICES}")
    with opened as executor:
        yield executor


@contextmanager
def _open_local(processes: int) -> Iterator[Executor | None]:
    if processes == 1:
        yield None
        return
    executor = _Processes(processes)
    try:
        yield executor
    except BrokenExecutor as error:
        raise CncError(
            f"planning in {processes} processes: {error}",
            hint="if memory ran out, use fewer processes: local:N",
        ) from error
    finally:
        executor.shutdown(cancel_futures=True)


def _process_count(where: str, count: str) -> int:
    if not count.isdecimal() or int(count) == 0:
        raise InputError(
            f"cannot use '{where}': '{count}' is not a number of processes",
            hint=f"use {_CHOICES}",
        )
    return int(count)


class _Processes(Executor):
    """A new process for each call, so many at a time. To cancel a call ends its process.

    The standard library's pool cannot end a call that runs. And when a worker dies while a large
    problem waits in its queue, that of Python 3.11 hangs at exit.
    """

    def __init__(self, count: int) -> None:
        # Once it runs, starting a process leaves the signal mask alone.
        resource_tracker.ensure_running()
        # A process inherits the mask of the thread that starts it: Ctrl-C, which a terminal sends
        # to all, is then for the parent alone.
        self._threads = ThreadPoolExecutor(
            count, "planning", signal.pthread_sigmask, (signal.SIG_BLOCK, {signal.SIGINT})
        )
        self._futures: set[Future[Any]] = set()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        # It never counts as running, so that it can always be cancelled.
        future: Future[Any] = Future()
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        self._threads.submit(_settle, future, partial(fn, *args, **kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            for future in list(self._futures):
                future.cancel()
        self._threads.shutdown(wait)


def _settle(future: Future[Any], call: Callable[[], Any]) -> None:
    """Give the future its result, or what went wrong."""
    try:
        if not future.cancelled():
            future.set_result(_call_in_process(future, call))
    except InvalidStateError:
        pass  # cancelled meanwhile
    except Exception as error:  # noqa: BLE001  raised by the future
        with suppress(InvalidStateError):
            future.set_exception(error)
    if future.cancelled():
        future.set_running_or_notify_cancel()  # or those who wait for it would wait on


def _call_in_process(future: Future[Any], call: Callable[[], Any]) -> Any:
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(writer, call), daemon=True)
    with reader:
        with writer:
            process.start()
        future.add_done_callback(lambda _: process.kill())
        try:
            result, error = reader.recv()
        except (EOFError, OSError) as end:
            process.join()
            raise BrokenExecutor(
                f"a process ended before it returned a result (exit code {process.exitcode})"
            ) from end
    process.join()
    if error is not None:
        raise error
    return result


def _work(writer: Connection, call: Callable[[], Any]) -> None:
    """The life of a process."""
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        result = call()
    except Exception as error:  # noqa: BLE001  for the parent to raise
        error.add_note(traceback.format_exc())
        writer.send((None, error))
    else:
        writer.send((result, None))


def _end_with_parent() -> None:
    """A parent that was killed cannot end its processes itself."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _open_dask(where: str) -> Iterator[Executor]:
    address = _dask_address(where)
    try:
        # An import that takes a second, of what few have installed.
        from distributed import Client, KilledWorker  # noqa: PLC0415
        from distributed.comm import CommClosedError  # noqa: PLC0415
    except ImportError as error:
        raise InputError(
            f"cannot use '{where}': Dask is not installed",
            hint="pip install 'tsn-control-plane[cluster]'",
        ) from error
    # What it has to say reaches the operator as an error, not as tracebacks beside it.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    try:
        # Without a scheme in the address, Dask's configuration decides whether it is TLS.
        client = Client(address, timeout=CONNECT_TIMEOUT_S, set_as_default=False)
    except (OSError, ImportError, RuntimeError, ValueError) as error:
        raise CncError(
            f"cannot use '{where}': {error}",
            hint="check that a scheduler runs there, or start one: dask scheduler; "
            f"then, on each machine: dask worker {address}",
        ) from error
    with client:
        try:
            _check_versions(where, client.get_versions(packages=[_OURS]))
            # Results are not shared between equal calls: Dask would have to compare problems.
            yield client.get_executor(pure=False)
        except KilledWorker as error:
            raise CncError(
                f"'{where}': {error}",
                hint="check whether the workers ran out of memory",
            ) from error
        except (CancelledError, CommClosedError) as error:
            raise CncError(
                f"'{where}': connection to the scheduler lost",
                hint="check whether it still runs",
            ) from error


def _check_versions(where: str, versions: Mapping[str, Any]) -> None:
    """What must be the same on each machine, is; and there is a machine to work."""
    workers = versions["workers"]
    if not workers:
        raise CncError(
            f"cannot use '{where}': the scheduler has no workers",
            hint=f"start some: dask worker {_dask_address(where)}",
        )
    wanted = _packages(versions["client"])
    others = {"scheduler": versions["scheduler"], **workers}
    for name in sorted(others):
        for package, version in _packages(others[name]).items():
            if version != wanted[package]:
                raise CncError(
                    f"cannot use '{where}': {package} is {version or 'not installed'} "
                    f"on {name}, and {wanted[package]} here",
                    hint="install the same versions on all machines",
                )


def _packages(versions: Mapping[str, Any]) -> dict[str, str | None]:
    packages = versions["packages"]
    python = ".".join(packages["python"].split(".")[:2])
    return {"Python": python, **{name: packages[name] for name in ("distributed", _OURS)}}


def _dask_address(where: str) -> str:
    """HOST:PORT."""
    try:
        parts = urlsplit(where)
        port = parts.port
    except ValueError:
        port = None
    if not port or not parts.hostname or where != f"dask://{parts.netloc}" or parts.username:
        raise InputError(
            f"cannot use '{where}': it does not name a host and a port",
            hint="write dask://HOST:PORT, as in dask://10.0.0.1:8786 or dask://[::1]:8786",
        )
    return parts.netloc
