"""Log records for journald, with fields to choose by (systemd.journal-fields(7)).

A record names its port, session or user in two ways: `extra={"fields": {"TSN_PORT": "p1"}}`, or by
an argument with an attribute `log_fields` of that shape. The text says it all the same.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Mapping

SOCKET = "/run/systemd/journal/socket"

# The numbers of syslog(3).
PRIORITIES = {
    logging.CRITICAL: 2,
    logging.ERROR: 3,
    logging.WARNING: 4,
    logging.INFO: 6,
    logging.DEBUG: 7,
}
# Well below what a datagram socket takes by default (net.core.wmem_default, 212,992).
TEXT_OCTETS_MAX = 65_536


def configure(level: int | str, identifier: str) -> None:
    """Log to journald if stderr leads there, else to stderr as text.

    `identifier` names the program (SYSLOG_IDENTIFIER, `journalctl -t`).
    """
    if _stderr_is_journal():
        handlers: list[logging.Handler] = [JournalHandler(identifier)]
    else:
        handlers = [logging.StreamHandler()]
    logging.basicConfig(
        level=level, format="%(levelname)s %(name)s: %(message)s", handlers=handlers
    )


class JournalHandler(logging.Handler):
    """Sends each record as one datagram of journald's native protocol."""

    def __init__(self, identifier: str, address: str = SOCKET) -> None:
        super().__init__()
        self._identifier = identifier
        self._address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._text = logging.Formatter("%(message)s")

    def setFormatter(self, fmt: logging.Formatter | None) -> None:  # noqa: N802 (logging's name)
        """The level and the logger's name are fields here, not text."""

    def emit(self, record: logging.LogRecord) -> None:
        """Send; what cannot be sent goes to stderr, as logging has it."""
        try:
            self._socket.sendto(encode(self._fields(record)), self._address)
        except Exception:  # noqa: BLE001 (a log must not end the program)
            self.handleError(record)

    def close(self) -> None:
        self._socket.close()
        super().close()

    def _fields(self, record: logging.LogRecord) -> dict[str, str]:
        text = self._text.format(record).encode(errors="replace")[:TEXT_OCTETS_MAX]
        return _said_of(record) | {
            "MESSAGE": text.decode(errors="ignore"),
            "PRIORITY": str(PRIORITIES.get(record.levelno, PRIORITIES[logging.INFO])),
            "SYSLOG_IDENTIFIER": self._identifier,
            "LOGGER": record.name,
            "CODE_FILE": record.pathname,
            "CODE_LINE": str(record.lineno),
            "CODE_FUNC": record.funcName,
        }


def encode(fields: Mapping[str, str]) -> bytes:
    """The native protocol: NAME=value; a value of several lines has its length in octets first."""
    parts = []
    for name, value in fields.items():
        octets = value.encode(errors="replace")
        if b"\n" in octets:
            length = len(octets).to_bytes(8, "little")
            parts.append(name.encode() + b"\n" + length + octets + b"\n")
        else:
            parts.append(name.encode() + b"=" + octets + b"\n")
    return b"".join(parts)


def _said_of(record: logging.LogRecord) -> dict[str, str]:
    fields: dict[str, str] = dict(getattr(record, "fields", {}))
    for argument in record.args if isinstance(record.args, tuple) else ():
        fields |= getattr(argument, "log_fields", {})
    return fields


def _stderr_is_journal() -> bool:
    """Whether stderr is the stream that systemd has connected (JOURNAL_STREAM, systemd.exec(5))."""
    try:
        status = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"
