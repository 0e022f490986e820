"""The files of the startup datastore, each with its last good copy beside it.

sysrepo renames what it has written into place without asking whether all of it was written
(`srpds_json_store_` in ds_json.c of 3.7.11 and 5.1.0 ignores what fclose(3) returns). On a full
disk it reports success and leaves a file that is empty or cut, and after the next boot nobody could
read the configuration. So a change of startup is read back, and undone if that fails; and a program
that starts with a file that cannot be read starts from the copies.

X.startup         what sysrepo reads and writes for module X
X.startup.good    the copy: what was last known to be whole and on disk
X.startup.next    the copy that is to take its place
X.startup.damaged what could not be read, until startup is written again

All functions block.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from agent import whole_file
from agent.sysrepo import (
    SysrepoConnection,
    SysrepoLyError,
    SysrepoSysError,
)
from agent.sysrepo.data import get_data, module_names
from agent.sysrepo.differences import differences
from agent.sysrepo.library import data_file

LOG = logging.getLogger(__name__)

# sysrepo's own record, in a file like those of startup. An earlier one names other modules.
_INSTALLED_MODULES = "sysrepo"


class Unreadable(Exception):
    """The file of a datastore is unreadable; the text names the file and a remedy."""


class NotStored(Exception):
    """Startup was not changed as asked; the text says what it holds now, why, and what to do."""


def check_stored(connection: SysrepoConnection) -> None:
    """Read the configuration in startup and running once, whole.

    sysrepo does not look into a file before it is asked for what is in it, and without running no
    request could be answered then. Raises Unreadable, or SysrepoError where the data are not to
    blame. Without startup only what reads or writes it is refused, and the log says so.
    """
    for module, reason in _unreadable(connection, "startup"):
        LOG.error("%s", _remedy("startup", module, reason, other="running"))
    for module, reason in _unreadable(connection, "running"):
        raise Unreadable(_remedy("running", module, reason, other="startup"))


def _remedy(datastore: str, module: str, reason: str, *, other: str) -> str:
    file = data_file(datastore, module)
    return (
        f"the datastore {datastore} is unreadable: {file}: {reason!r}. "
        f"Put a good copy there; {other} has the same format: "
        f"cp {data_file(other, module)} {file}"
    )


def mend(connection: SysrepoConnection) -> None:
    """Replace startup by the copies if a file of it cannot be read, and log that.

    Those of all modules, as startup is one configuration. A damaged file without a copy becomes
    what is running. If running cannot be read either, the machine has booted from what is damaged:
    then running becomes the copies, too, before another program uses it. What cannot be repaired is
    logged and left. Raises SysrepoError.
    """
    if not dict(_unreadable(connection, "startup")):
        return
    try:
        # The agent and the NETCONF server may start at the same time.
        with _exclusively(data_file("startup", "any").parent):
            _mend(connection)
    except OSError as error:
        LOG.error("startup is damaged and cannot be repaired: %s", error)


@contextmanager
def _exclusively(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _mend(connection: SysrepoConnection) -> None:
    """Raises OSError or SysrepoError."""
    damaged = dict(_unreadable(connection, "startup"))
    has_booted_from_it = bool(dict(_unreadable(connection, "running")))
    files = _files(connection)
    copies = {module: _good(file) for module, file in files.items() if _good(file).exists()}
    others = damaged.keys() - copies
    if others and has_booted_from_it:
        missing = _good(files[min(others)])
        raise FileNotFoundError(errno.ENOENT, "there is no good copy", str(missing))
    for module in damaged:
        _keep_as_evidence(files[module])
    for module in others:
        running = data_file("running", module)
        whole_file.replace(files[module], running.read_bytes(), mode=_mode(running))
    for module, copy in copies.items():
        running = data_file("running", module)
        if has_booted_from_it and running.exists():
            _overwrite(running, copy.read_bytes())
        if module in damaged or files[module].read_bytes() != copy.read_bytes():
            _put(copy, files[module])
    for module, reason in damaged.items():
        LOG.error(
            "startup: %s was unreadable (%r); it is now %s. To have the switch boot with what is "
            "running instead, copy running to startup. The damaged file is %s",
            files[module],
            reason,
            "what is running" if module in others else "the last good copy",
            _damaged(files[module]),
        )


def damaged_modules(connection: SysrepoConnection) -> list[str]:
    """The modules whose files were replaced by `mend`, since startup was last written."""
    return sorted(name for name, file in _files(connection).items() if _damaged(file).exists())


class Startup:
    """Changes of startup, one at a time, each as a whole and for good or not at all."""

    def __init__(self, connection: SysrepoConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def keep(self) -> None:
        """Have a copy of each file; log why if there is no room. Raises SysrepoError."""
        with self._lock:
            try:
                self._kept()
            except OSError as error:
                LOG.warning("the good copies of startup are of an earlier state: %s", error)

    @contextmanager
    def change(self, must_equal: str | None = None) -> Iterator[None]:
        """Read back what is written to startup within, and undo it unless all is readable.

        `must_equal`: the datastore that it is a copy of, if nobody changes that within. It is on
        disk afterwards, and so is a copy of it. Raises NotStored, or what is raised within; startup
        is then as it was.
        """
        with self._lock:
            try:
                before = self._kept()
            except OSError as error:
                raise NotStored(
                    f"startup is unchanged: it cannot be kept meanwhile: {error}; {_room()}"
                ) from None
            try:
                yield
                self._keep_changed(before, must_equal)
            except BaseException as error:
                try:
                    self._restore(before)
                except OSError as failure:
                    raise NotStored(
                        f"startup may be damaged: {error}; and it cannot be restored: {failure}"
                    ) from None
                if isinstance(error, OSError | Unreadable):
                    raise NotStored(f"startup is unchanged: {error}; {_room()}") from None
                raise
            for file in _files(self._connection).values():
                _damaged(file).unlink(missing_ok=True)

    def _kept(self) -> dict[Path, bytes]:
        """What is in startup, by file; its copy has the same content, in disk blocks of its own.

        What another program has damaged meanwhile is mended first. Raises OSError or SysrepoError.
        """
        files = _files(self._connection)
        new = [module for module, file in files.items() if not _has_copy(file)]
        if dict(_unreadable(self._connection, "startup", new)):
            _mend(self._connection)
        before = {}
        for file in files.values():
            before[file] = file.read_bytes()
            if not _has_copy(file):
                whole_file.replace(_good(file), before[file], mode=_mode(file))
        return before

    def _keep_changed(self, before: Mapping[Path, bytes], must_equal: str | None) -> None:
        """Raises Unreadable or OSError; the copies are the former ones then."""
        files = _files(self._connection)
        new = [module for module, file in files.items() if file.read_bytes() != before.get(file)]
        for module, reason in _unreadable(self._connection, "startup", new):
            raise Unreadable(f"{files[module]} cannot be read back ({reason})")
        if must_equal is not None and not _are_equal(self._connection, must_equal, "startup"):
            raise Unreadable(f"what was read back is not what is in {must_equal}")
        changed = [files[module] for module in new]
        try:
            for file in changed:
                _sync(file)
                whole_file.replace(_next(file), file.read_bytes(), mode=_mode(file))
        except OSError:
            for file in changed:
                _next(file).unlink(missing_ok=True)
            raise
        for file in changed:
            _next(file).replace(_good(file))

    def _restore(self, before: Mapping[Path, bytes]) -> None:
        """Raises OSError. It takes no room on the disk."""
        for file, content in before.items():
            if not file.exists() or file.read_bytes() != content:
                _put(_good(file), file)


def _unreadable(
    connection: SysrepoConnection, datastore: str, modules: Iterable[str] | None = None
) -> Iterator[tuple[str, str]]:
    """The modules (None: of all) whose data cannot be read, and why."""
    with connection.start_session(datastore) as session:
        for module in _modules(connection) if modules is None else modules:
            try:
                with get_data(session, f"/{module}:*"):
                    pass
            except (SysrepoLyError, SysrepoSysError) as error:
                yield module, str(error)


def _are_equal(connection: SysrepoConnection, *datastores: str) -> bool:
    first, second = (connection.start_session(each) for each in datastores)
    with (
        first,
        second,
        connection.get_ly_ctx() as context,
        get_data(first, "/*") as one,
        get_data(second, "/*") as other,
    ):
        return not differences(context, one, other)


def _modules(connection: SysrepoConnection) -> list[str]:
    with connection.get_ly_ctx() as context:
        return list(module_names(context).values())


def _files(connection: SysrepoConnection) -> dict[str, Path]:
    """The files of startup by module; none of a module whose data another plugin keeps."""
    files = {
        module: data_file("startup", module)
        for module in _modules(connection)
        if module != _INSTALLED_MODULES
    }
    return {module: file for module, file in files.items() if file.exists() or _good(file).exists()}


def _good(file: Path) -> Path:
    return file.with_name(f"{file.name}.good")


def _has_copy(file: Path) -> bool:
    """Whether there is a copy of this very content that shares nothing with the file."""
    copy = _good(file)
    return copy.exists() and not copy.samefile(file) and copy.read_bytes() == file.read_bytes()


def _next(file: Path) -> Path:
    return file.with_name(f"{file.name}.next")


def _damaged(file: Path) -> Path:
    return file.with_name(f"{file.name}.damaged")


def _room() -> str:
    """What to do about a full disk, and how full it is."""
    directory = data_file("startup", "any").parent
    file_system = os.statvfs(directory)
    octets = file_system.f_bavail * file_system.f_frsize
    return (
        f"{octets} octets are left on the file system of {directory}: "
        "make room there, and send the request again"
    )


def _put(copy: Path, file: Path) -> None:
    """Put the copy in the place of the file, at any moment whole; it takes no room on the disk."""
    copy.replace(file)
    # The next change has a copy of its own made, which shares nothing with the file.
    with suppress(OSError):
        copy.hardlink_to(file)


def _keep_as_evidence(file: Path) -> None:
    try:
        if not _damaged(file).exists():
            _damaged(file).hardlink_to(file)
    except OSError as error:
        LOG.warning("the damaged file is not kept: %s", error)


def _overwrite(file: Path, content: bytes) -> None:
    """Write a file in place: in /dev/shm only its owner may replace it."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW), "wb") as opened:
        opened.write(content)


def _sync(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def _mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)
