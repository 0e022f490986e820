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
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from agent.model import AgentError

OBJECTS = Path(__file__).parents[1] / "bpf"

_LIBRARY = "libbpf.so.1"
_BPF_FS_MAGIC = 0xCAFE4A11
_BPF_ANY = 0
_HASH = 1  # BPF_MAP_TYPE_HASH
_MAP_INFO, _PROGRAM_INFO = struct.Struct("=IIIIII"), struct.Struct("=II8s")
_PROGRAM_NAME = slice(64, 80)  # of struct bpf_prog_info
_INFO_OCTETS = 256
_LOG_LINES = 12  # of what the verifier says, the last of which name the reason
_PRINT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_WARNING = 0  # LIBBPF_WARN


class Map:
    """One map: keys and values of a fixed length, in octets. Raises OSError where not said else."""

    def __init__(self, descriptor: int) -> None:
        """Takes over the descriptor."""
        self.descriptor = descriptor
        _kind, self.id, self.key_octets, self.value_octets, self.entries_max, _flags = (
            _MAP_INFO.unpack_from(_info(descriptor))
        )

    def close(self) -> None:
        os.close(self.descriptor)

    def lookup(self, key: bytes) -> bytes | None:
        """The value of this key; None where it has none."""
        value = ctypes.create_string_buffer(self.value_octets)
        outcome = _libbpf().bpf_map_lookup_elem(self.descriptor, self._key(key), value)
        return None if _is_missing(outcome) else value.raw

    def update(self, key: bytes, value: bytes) -> None:
        """Let the key have this value. In a hash map a program sees the former or the new one."""
        if len(value) != self.value_octets:
            raise ValueError(f"a value of {len(value)} octets, not {self.value_octets}")
        library = _libbpf()
        _check(library.bpf_map_update_elem(self.descriptor, self._key(key), value, _BPF_ANY))

    def delete(self, key: bytes) -> None:
        """The key has no value any more, if it had any."""
        _is_missing(_libbpf().bpf_map_delete_elem(self.descriptor, self._key(key)))

    def keys(self) -> Iterator[bytes]:
        """All keys of a hash map, if none is deleted meanwhile but the newest one of these."""
        following = ctypes.create_string_buffer(self.key_octets)
        listed: list[bytes] = []
        previous: bytes | None = None
        while not _is_missing(_libbpf().bpf_map_get_next_key(self.descriptor, previous, following)):
            previous = following.raw
            listed.append(previous)
        yield from listed

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All entries of a hash map."""
        for key in self.keys():
            if (value := self.lookup(key)) is not None:
                yield key, value

    def _key(self, key: bytes) -> bytes:
        if len(key) != self.key_octets:
            raise ValueError(f"a key of {len(key)} octets, not {self.key_octets}")
        return key


class MapShape(NamedTuple):
    """How long keys and values of a map are, in octets."""

    key_octets: int
    value_octets: int


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

    @property
    def is_pinned(self) -> bool:
        """Whether a program of this layout, of whatever code, is there."""
        return bool(self.pinned("program-"))

    def program_ids(self) -> frozenset[int]:
        """The numbers by which the kernel lists the pinned programs: one, but in a replacement."""
        numbers = set()
        for name in self.pinned("program-"):
            descriptor = _opened(self._pins / name)
            numbers.add(program_id(descriptor))
            os.close(descriptor)
        return frozenset(numbers)

    def capability(self) -> str | None:
        """None, or why no BPF program can be loaded, as far as that can be told by looking."""
        try:
            _libbpf()
            self._code()
        except AgentError as reason:
            return str(reason)
        return None

    def problem(self) -> str | None:
        """None, or why none can be loaded and pinned, before one is: a file system is mounted."""
        try:
            _require_bpffs(self._directory)
        except AgentError as reason:
            return self.capability() or str(reason)
        return self.capability()

    def load(self) -> int:
        """A descriptor of the program, loaded and pinned if it is not, with its maps.

        AgentError with the kernel's reason: nothing has changed then.
        """
        program = self._pins / f"program-{self._code()}"
        if program.exists():
            return _opened(program)
        _require_bpffs(self._directory)
        library, log = _libbpf(), _Log()
        former = [self._pins / each for each in self.pinned("program-")]
        self._pins.mkdir(exist_ok=True)
        handle = library.bpf_object__open_file(os.fsencode(self._object), None)
        if not handle:
            raise self._refused(ctypes.get_errno(), log)
        try:
            for each in _maps(handle):
                pin = os.fsencode(self._pins / library.bpf_map__name(each).decode())
                _check(library.bpf_map__set_pin_path(each, pin))
            if outcome := library.bpf_object__load(handle):
                self._forget_unused()
                raise self._refused(-outcome, log)
            of_handle = library.bpf_object__next_program(handle, None)
            if outcome := library.bpf_program__pin(of_handle, os.fsencode(program)):
                raise self._refused(-outcome, log)
            descriptor = os.dup(library.bpf_program__fd(of_handle))
        finally:
            library.bpf_object__close(handle)
        for each in former:
            each.unlink()
        self._remove_other_layouts()
        return descriptor

    def map(self, name: str) -> Map:
        """A pinned map by its name in the source; raises OSError where there is none."""
        return Map(_opened(self._pins / name))

    def new_map(self, name: str, like: MapShape, entries: int) -> Map:
        """A hash map of its own for the maps of maps of the object; raises OSError."""
        descriptor = _libbpf().bpf_map_create(
            _HASH, name.encode(), like.key_octets, like.value_octets, max(1, entries), None
        )
        return Map(_check(descriptor))

    def pin(self, each: Map, name: str) -> None:
        """Let a map outlive this process under this name; raises OSError."""
        _check(_libbpf().bpf_obj_pin(each.descriptor, os.fsencode(self._pins / name)))

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

    def _code(self) -> str:
        """What tells one version of the code from another."""
        try:
            return hashlib.sha256(self._object.read_bytes()).hexdigest()[:16]
        except FileNotFoundError as error:
            raise AgentError(
                f"there is no {self._object}; in a checkout scripts/setup compiles it, else "
                "install the package again"
            ) from error

    def _refused(self, code: int, log: _Log) -> AgentError:
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
    _kind, number, _tag = _PROGRAM_INFO.unpack_from(_info(descriptor))
    return int(number)


def program_name(number: int) -> str | None:
    """The name of a loaded program; None where it is not told: that takes CAP_SYS_ADMIN."""
    try:
        descriptor = _check(_libbpf().bpf_prog_get_fd_by_id(number))
    except (AgentError, OSError):
        return None
    try:
        name = _info(descriptor)[_PROGRAM_NAME]
    finally:
        os.close(descriptor)
    return name.rstrip(b"\0").decode(errors="replace") or None


class _Log:
    """What libbpf says, with the verifier's words in it, from now until the next one is made."""

    newest: _Log | None = None

    def __init__(self) -> None:
        self._lines: list[str] = []
        _Log.newest = self

    def add(self, text: str) -> None:
        self._lines += [line.removeprefix("libbpf: ") for line in text.splitlines() if line]

    @property
    def text(self) -> str:
        shown = [line for line in self._lines if not line.startswith(("--", "processed "))]
        return "".join(f"\n  {line}" for line in shown[-_LOG_LINES:])


@cache
def _libbpf() -> ctypes.CDLL:
    """The library with its prototypes; AgentError where it is not installed."""
    try:
        library = ctypes.CDLL(_LIBRARY, use_errno=True)
    except OSError as error:
        raise AgentError(f"{error}; install the package libbpf1") from error
    handle, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    for name, arguments, result in (
        ("bpf_object__open_file", (text, handle), handle),
        ("bpf_object__load", (handle,), number),
        ("bpf_object__close", (handle,), None),
        ("bpf_object__next_map", (handle, handle), handle),
        ("bpf_object__next_program", (handle, handle), handle),
        ("bpf_map__name", (handle,), text),
        ("bpf_map__set_pin_path", (handle, text), number),
        ("bpf_program__pin", (handle, text), number),
        ("bpf_program__fd", (handle,), number),
        ("bpf_obj_get", (text,), number),
        ("bpf_obj_pin", (number, text), number),
        ("bpf_map_create", (number, text, *[ctypes.c_uint32] * 3, handle), number),
        ("bpf_prog_get_fd_by_id", (ctypes.c_uint32,), number),
        ("bpf_obj_get_info_by_fd", (number, handle, ctypes.POINTER(ctypes.c_uint32)), number),
        ("bpf_map_lookup_elem", (number, text, handle), number),
        ("bpf_map_update_elem", (number, text, text, ctypes.c_uint64), number),
        ("bpf_map_delete_elem", (number, text), number),
        ("bpf_map_get_next_key", (number, text, handle), number),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    library.libbpf_set_print(_RECORD)
    return library


def _record(level: int, form: bytes, arguments: int | None) -> int:
    """libbpf's vprintf: lines of warnings go to the newest log."""
    if level == _WARNING and _Log.newest:
        text = ctypes.create_string_buffer(1 << 16)
        ctypes.CDLL(None).vsnprintf(text, len(text), form, ctypes.c_void_p(arguments))
        _Log.newest.add(text.value.decode(errors="replace"))
    return 0


_RECORD = _PRINT(_record)


def _maps(handle: Any) -> Iterator[Any]:
    each = _libbpf().bpf_object__next_map(handle, None)
    while each:
        yield each
        each = _libbpf().bpf_object__next_map(handle, each)


def _opened(pin: Path) -> int:
    return _check(_libbpf().bpf_obj_get(os.fsencode(pin)))


def _info(descriptor: int) -> bytes:
    info = ctypes.create_string_buffer(_INFO_OCTETS)
    length = ctypes.c_uint32(len(info))
    _check(_libbpf().bpf_obj_get_info_by_fd(descriptor, info, ctypes.byref(length)))
    return info.raw


def _check(outcome: int) -> int:
    """What the function returned; OSError where that is an error number."""
    if outcome < 0:
        raise OSError(-outcome, os.strerror(-outcome))
    return outcome


def _is_missing(outcome: int) -> bool:
    """Whether there is no such entry; raises OSError for any other error."""
    if outcome == -errno.ENOENT:
        return True
    _check(outcome)
    return False


def _require_bpffs(directory: Path) -> None:
    """Mount a bpf file system where none is; AgentError where that is not permitted."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AgentError(f"no directory for BPF objects: {error}") from error
    if _file_system(libc, directory) == _BPF_FS_MAGIC:
        return
    if libc.mount(b"bpf", os.fsencode(directory), b"bpf", 0, b"mode=0700"):
        code = ctypes.get_errno()
        raise AgentError(
            f"{directory} has no bpf file system, and to mount one was refused: "
            f"{os.strerror(code)} ({errno.errorcode.get(code, 'error')}); "
            f"mount -t bpf bpf {directory}"
        )


def _file_system(libc: ctypes.CDLL, directory: Path) -> int:
    """The magic number of the file system that a directory is in (statfs(2): a long, the first)."""
    buffer = (ctypes.c_long * 64)()
    if libc.statfs(os.fsencode(directory), buffer):
        return 0
    return int(buffer[0]) & 0xFFFFFFFF


def _remove_pins(pins: Path) -> None:
    if pins.is_dir():
        for each in pins.iterdir():
            each.unlink()
        pins.rmdir()
