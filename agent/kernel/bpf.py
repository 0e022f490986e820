"""BPF objects in the kernel: loaded, pinned in a directory, and their maps read and written.

By libbpf (libbpf.so.1, Debian package libbpf1) with ctypes: it reads the object that clang made,
has the kernel make the maps with the types of their contents (BTF), and verify the program. What is
pinned outlives the process that has pinned it: an agent that starts adopts the program with what
its maps hold. Needs CAP_BPF beside CAP_NET_ADMIN, and a bpf file system; root mounts one itself.
Struct layouts are those of linux/bpf.h.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.kernel.bpf_map import Map, MapShape
from agent.kernel.libbpf import Log, check, info, libbpf
from agent.model import AgentError

OBJECTS = Path(__file__).parents[1] / "bpf"

_BPF_FS_MAGIC = 0xCAFE4A11
_CAP_SYS_ADMIN = 21  # linux/capability.h
_HASH = 1  # BPF_MAP_TYPE_HASH
_PROGRAM_INFO = struct.Struct("=II8s")
_PROGRAM_NAME = slice(64, 80)  # of struct bpf_prog_info


class PinnedObject:
    """An object of `agent/bpf`, which has one program, and where it is pinned.

    Below `directory` it has a directory of its name and of the version of its layout, in which the
    program and each map is a file. A program of other code replaces the pinned one and takes its
    maps over; one of another layout begins with empty maps.
    """

    def __init__(self, directory: Path, name: str, layout: int, objects: Path = OBJECTS) -> None:
        self._directory, self._name = directory, name
        self._object = objects / f"{name}.bpf.o"
        self._pins = directory / f"{name}-{layout}"
        self._is_verified = False

    @property
    def is_pinned(self) -> bool:
        """Whether a program of this layout, of whatever code, is there."""
        return bool(self.pinned("program-"))

    def program_ids(self) -> frozenset[int]:
        """The numbers by which the kernel lists the pinned programs, of former layouts, too."""
        numbers = set()
        for pin in self._directory.glob(f"{self._name}-*/program-*"):
            descriptor = _opened(pin)
            numbers.add(program_id(descriptor))
            os.close(descriptor)
        return frozenset(numbers)

    def capability(self) -> str | None:
        """None, or why the program cannot be loaded and pinned, without leaving a trace.

        The kernel verifies the program: nobody else knows what it refuses. One that it has taken
        is not verified again.
        """
        if self._is_verified or self.is_pinned:
            return None
        try:
            self._code()
            if not _is_bpffs(self._directory):
                _require_right_to_mount(self._directory)
            with self._opened_object() as (handle, log):
                self._load(handle, log)
        except AgentError as reason:
            return str(reason)
        self._is_verified = True
        return None

    def problem(self) -> str | None:
        """As `capability`, but where there is no bpf file system one is mounted."""
        if why := self.capability():
            return why
        try:
            _require_bpffs(self._directory)
        except AgentError as reason:
            return str(reason)
        return None

    def load(self) -> int:
        """A descriptor of the program, loaded and pinned if it is not, with its maps.

        AgentError with the kernel's reason: nothing has changed then.
        """
        program = self._pins / f"program-{self._code()}"
        if program.exists():
            return _opened(program)
        _require_bpffs(self._directory)
        library = libbpf()
        former = [self._pins / each for each in self.pinned("program-")]
        self._pins.mkdir(exist_ok=True)
        with self._opened_object() as (handle, log):
            for each in _maps(handle):
                pin = os.fsencode(self._pins / library.bpf_map__name(each).decode())
                check(library.bpf_map__set_pin_path(each, pin))
            try:
                self._load(handle, log)
            except AgentError:
                self._forget_unused()
                raise
            of_handle = library.bpf_object__next_program(handle, None)
            if outcome := library.bpf_program__pin(of_handle, os.fsencode(program)):
                raise self._refused(-outcome, log)
            descriptor = os.dup(library.bpf_program__fd(of_handle))
        for each in former:
            each.unlink()
        self._remove_other_layouts()
        return descriptor

    def map(self, name: str) -> Map:
        """A pinned map by its name in the source; raises OSError where there is none."""
        return Map(_opened(self._pins / name))

    def new_map(self, name: str, like: MapShape, entries: int) -> Map:
        """A hash map of its own for the maps of maps of the object; raises OSError."""
        descriptor = libbpf().bpf_map_create(
            _HASH, name.encode(), like.key_octets, like.value_octets, max(1, entries), None
        )
        return Map(check(descriptor))

    def pin(self, each: Map, name: str) -> None:
        """Let a map outlive this process under this name; raises OSError."""
        check(libbpf().bpf_obj_pin(each.descriptor, os.fsencode(self._pins / name)))

    def unpin(self, name: str) -> None:
        (self._pins / name).unlink(missing_ok=True)

    def pinned(self, prefix: str) -> list[str]:
        """The names of what is pinned that begin so; nothing where the agent may not look."""
        try:
            return sorted(each.name for each in self._pins.glob(f"{prefix}*"))
        except PermissionError:
            return []

    def program(self) -> int | None:
        """A descriptor of the pinned program, of whatever code; None where there is none."""
        pins = self.pinned("program-")
        return _opened(self._pins / pins[0]) if pins else None

    @property
    def is_current(self) -> bool:
        """Whether the pinned program is of the code that would be loaded, if there is any."""
        if not self._object.exists():
            return True
        return (self._pins / f"program-{self._code()}").exists()

    def remove(self) -> None:
        """Unpin all: program and maps end with their last user in the kernel."""
        _remove_pins(self._pins)

    @contextmanager
    def _opened_object(self) -> Iterator[tuple[Any, Log]]:
        """libbpf's handle of the object, and what libbpf says of it; AgentError where it cannot
        be read."""
        library, log = libbpf(), Log()
        handle = library.bpf_object__open_file(os.fsencode(self._object), None)
        if not handle:
            raise self._refused(ctypes.get_errno(), log)
        try:
            yield handle, log
        finally:
            library.bpf_object__close(handle)

    def _load(self, handle: Any, log: Log) -> None:
        """Have the kernel make the maps and verify the program; AgentError with its reason."""
        if outcome := libbpf().bpf_object__load(handle):
            raise self._refused(-outcome, log)

    def _code(self) -> str:
        """What tells one version of the code from another."""
        try:
            return hashlib.sha256(self._object.read_bytes()).hexdigest()[:16]
        except FileNotFoundError as error:
            raise AgentError(
                f"there is no {self._object}; in a checkout scripts/setup compiles it, else "
                "install the package again"
            ) from error

    def _refused(self, code: int, log: Log) -> AgentError:
        name = errno.errorcode.get(code, "error")
        words = f"the kernel refused the BPF program {self._name}: {os.strerror(code)} ({name})"
        return AgentError(f"{words}{log.text}")

    def _forget_unused(self) -> None:
        if not self.is_pinned:
            _remove_pins(self._pins)

    def _remove_other_layouts(self) -> None:
        for pins in self._directory.glob(f"{self._name}-*"):
            if pins != self._pins:
                _remove_pins(pins)


def program_id(descriptor: int) -> int:
    """The number by which the kernel lists a loaded program."""
    _kind, number, _tag = _PROGRAM_INFO.unpack_from(info(descriptor))
    return int(number)


def program_name(number: int) -> str | None:
    """The name of a loaded program; None where it is not told: that takes CAP_SYS_ADMIN."""
    try:
        descriptor = check(libbpf().bpf_prog_get_fd_by_id(number))
    except (AgentError, OSError):
        return None
    try:
        name = info(descriptor)[_PROGRAM_NAME]
    finally:
        os.close(descriptor)
    return name.rstrip(b"\0").decode(errors="replace") or None


def _maps(handle: Any) -> Iterator[Any]:
    each = libbpf().bpf_object__next_map(handle, None)
    while each:
        yield each
        each = libbpf().bpf_object__next_map(handle, each)


def _opened(pin: Path) -> int:
    return check(libbpf().bpf_obj_get(os.fsencode(pin)))


def _require_bpffs(directory: Path) -> None:
    """Mount a bpf file system where none is; AgentError where that is not permitted."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AgentError(f"no directory for BPF objects: {error}") from error
    if _is_bpffs(directory):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"bpf", os.fsencode(directory), b"bpf", 0, b"mode=0700"):
        raise _not_mounted(directory, ctypes.get_errno())


def _require_right_to_mount(directory: Path) -> None:
    """AgentError where this process may mount nothing."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    if not int(effective.split()[1], 16) >> _CAP_SYS_ADMIN & 1:
        raise _not_mounted(directory, errno.EPERM)


def _not_mounted(directory: Path, code: int) -> AgentError:
    return AgentError(
        f"{directory} has no bpf file system, and to mount one was refused: "
        f"{os.strerror(code)} ({errno.errorcode.get(code, 'error')}); "
        f"mount -t bpf bpf {directory}"
    )


def _is_bpffs(directory: Path) -> bool:
    """By the magic number of the file system (statfs(2): a long, the first)."""
    buffer = (ctypes.c_long * 64)()
    if ctypes.CDLL(None).statfs(os.fsencode(directory), buffer):
        return False
    return int(buffer[0]) & 0xFFFFFFFF == _BPF_FS_MAGIC


def _remove_pins(pins: Path) -> None:
    if pins.is_dir():
        for each in pins.iterdir():
            each.unlink()
        pins.rmdir()
