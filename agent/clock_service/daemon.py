"""One ptp4l, with the phc2sys that brings clocks of network cards together with the system's."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from agent.kernel.ptp_management import ManagementId, ask
from agent.ptp_daemons import files, status
from agent.ptp_daemons.files import Daemon, management_domain
from agent.ptp_daemons.model import TimeStamping
from agent.ptp_daemons.status import Status

LOG = logging.getLogger(__name__)

PR_SET_PDEATHSIG = 1  # linux/prctl.h
STOP_TIMEOUT_S = 1.0
# So that one that ends at once does not keep a processor busy.
RESTART_S = 1.0
# How often one that was started is asked whether it serves.
FIRST_ANSWER_POLL_S = 0.05
OUTPUT_OCTETS = 65536
FAILURE_LINES = 2  # ptp4l prints what is wrong, and then what it cannot do for that
# LOG_NOTICE: states of ports and what is wrong, not what each second shows.
PRINT_LEVEL = "5"
QUIET = ("-l", PRINT_LEVEL, "-m", "-q")


class PtpDaemon:
    """Runs what one configuration asks for, from `start` until `stop`; restarts what ends.

    `content` is that of the file. `output` is what is readable when the ptp4l prints or ends.
    """

    def __init__(self, directory: Path, index: int, content: bytes) -> None:
        self._directory = directory
        self._index = index
        self.content = content
        self._ptp4l: subprocess.Popen[bytes] | None = None
        self._phc2sys: subprocess.Popen[bytes] | None = None
        self._answered = False
        self._last_lines: deque[str] = deque(maxlen=FAILURE_LINES)
        self._part = b""  # of the line that is being printed
        self._due_s: float | None = None

    @property
    def output(self) -> int | None:
        """The descriptor of what the ptp4l prints; None while none runs."""
        return self._ptp4l.stdout.fileno() if self._ptp4l and self._ptp4l.stdout else None

    @property
    def due_s(self) -> float | None:
        """When `step` wants to be called (time.monotonic), beside after output; None: never."""
        return self._due_s

    def start(self) -> None:
        """Start the ptp4l; that it could not is the content of the status file."""
        self._answered = False
        self._last_lines.clear()
        self._part = b""
        self._due_s = time.monotonic() + FIRST_ANSWER_POLL_S
        try:
            daemon = files.decode(self.content)
            self._ptp4l = _spawn(self._ptp4l_command(), output=subprocess.PIPE)
        except FileNotFoundError:
            self._failed("ptp4l is not installed: it is in the package linuxptp")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            self._failed(f"{files.configuration_file(self._directory, self._index)}: {error!r}")
        else:
            self._daemon = daemon
            if self._ptp4l.stdout:
                os.set_blocking(self._ptp4l.stdout.fileno(), False)

    def step(self) -> None:
        """Read what was printed, see whether it answers or has ended, and start it again."""
        if self._ptp4l is None:
            if self._due_s is not None and time.monotonic() >= self._due_s:
                self.start()
            return
        ended = self._read_output()
        if ended:
            self._end(self._ptp4l)
        elif not self._answered:
            self._ask()

    def stop(self) -> None:
        """End it, and remove what says that it runs."""
        self._stop_phc2sys()
        if self._ptp4l:
            _stop(self._ptp4l)
            self._ptp4l = None
        self._due_s = None
        files.status_file(self._directory, self._index).unlink(missing_ok=True)
        files.socket_address(self._directory, self._index).unlink(missing_ok=True)

    def _ptp4l_command(self) -> list[str]:
        configuration = files.configuration_file(self._directory, self._index)
        address = files.socket_address(self._directory, self._index)
        return ["ptp4l", "-f", str(configuration), f"--uds_address={address}", *QUIET]

    def _phc2sys_command(self, daemon: Daemon) -> list[str]:
        """Every clock follows the one that ptp4l follows, or the system's if it follows none."""
        address = files.socket_address(self._directory, self._index)
        domain = management_domain(daemon.instance)
        options = ["-z", str(address), "-n", str(domain.number)]
        return ["phc2sys", "-a", "-r", "-r", *options, f"--transportSpecific={domain.sdo}", *QUIET]

    def _read_output(self) -> bool:
        """Whether the ptp4l has ended; its lines go to our own log."""
        while self.output is not None:
            try:
                printed = os.read(self.output, OUTPUT_OCTETS)
            except BlockingIOError:
                return False
            if not printed:
                return True
            *lines, self._part = (self._part + printed).split(b"\n")
            for line in (each.decode("utf-8", "replace") for each in lines):
                LOG.info("instance %d: %s", self._index, line)
                self._last_lines.append(line)
        return True

    def _end(self, ptp4l: subprocess.Popen[bytes]) -> None:
        code = ptp4l.wait()
        how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        self._stop_phc2sys()
        if ptp4l.stdout:
            ptp4l.stdout.close()
        self._failed("; ".join(self._last_lines) if code > 0 and self._last_lines else how)

    def _failed(self, reason: str) -> None:
        LOG.error("instance %d: %s; starting it again", self._index, reason)
        self._ptp4l = None
        self._due_s = time.monotonic() + RESTART_S
        self._write(Status(files.digest(self.content), failure=reason))

    def _ask(self) -> None:
        address = str(files.socket_address(self._directory, self._index))
        domain = management_domain(self._daemon.instance)
        self._due_s = time.monotonic() + FIRST_ANSWER_POLL_S
        with suppress(OSError):
            if any(ask(address, [domain], [ManagementId.DEFAULT_DATA_SET])):
                self._answered, self._due_s = True, None
                self._start_phc2sys()
                self._write(Status(files.digest(self.content), running=True))

    def _start_phc2sys(self) -> None:
        daemon = self._daemon
        if daemon.time_stamping is TimeStamping.HARDWARE and not daemon.instance.free_running:
            try:
                self._phc2sys = _spawn(self._phc2sys_command(daemon), output=None)
            except OSError as error:
                LOG.error("instance %d: phc2sys: %s", self._index, error)

    def _stop_phc2sys(self) -> None:
        if self._phc2sys:
            _stop(self._phc2sys)
            self._phc2sys = None

    def _write(self, content: Status) -> None:
        try:
            status.write(files.status_file(self._directory, self._index), content)
        except OSError as error:
            LOG.error("instance %d: its status cannot be written: %s", self._index, error)


def _spawn(command: list[str], output: int | None) -> subprocess.Popen[bytes]:
    """A process that ends with this one."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
        preexec_fn=_end_with_parent,  # noqa: PLW1509  no thread runs beside
    )


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout:
        process.stdout.close()
