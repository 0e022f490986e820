"""libbpf.so.1 (Debian package libbpf1) by ctypes: its functions, and what it says.

Struct layouts are those of linux/bpf.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache

from agent.model import AgentError

_LIBRARY = "libbpf.so.1"
_INFO_OCTETS = 256
_LOG_LINES = 12  # of what the verifier says, the last of which name the reason
_PRINT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_WARNING = 0  # LIBBPF_WARN


class Log:
    """What libbpf says, with the verifier's words in it, from now until the next one is made."""

    newest: Log | None = None

    def __init__(self) -> None:
        self._lines: list[str] = []
        Log.newest = self

    def add(self, text: str) -> None:
        self._lines += [line.removeprefix("libbpf: ") for line in text.splitlines() if line]

    @property
    def text(self) -> str:
        shown = [line for line in self._lines if not line.startswith(("--", "processed "))]
        return "".join(f"\n  {line}" for line in shown[-_LOG_LINES:])


@cache
def libbpf() -> ctypes.CDLL:
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
        (
            "bpf_map_lookup_batch",
            (number, text, *[handle] * 3, ctypes.POINTER(ctypes.c_uint32), handle),
            number,
        ),
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
    if level == _WARNING and Log.newest:
        text = ctypes.create_string_buffer(1 << 16)
        ctypes.CDLL(None).vsnprintf(text, len(text), form, ctypes.c_void_p(arguments))
        Log.newest.add(text.value.decode(errors="replace"))
    return 0


_RECORD = _PRINT(_record)


def info(descriptor: int) -> bytes:
    """What the kernel tells of a program or a map; raises OSError."""
    told = ctypes.create_string_buffer(_INFO_OCTETS)
    length = ctypes.c_uint32(len(told))
    check(libbpf().bpf_obj_get_info_by_fd(descriptor, told, ctypes.byref(length)))
    return told.raw


def check(outcome: int) -> int:
    """What the function returned; OSError where that is an error number."""
    if outcome < 0:
        raise OSError(-outcome, os.strerror(-outcome))
    return outcome


def is_missing(outcome: int) -> bool:
    """Whether there is no such entry; raises OSError for any other error."""
    if outcome == -errno.ENOENT:
        return True
    check(outcome)
    return False
