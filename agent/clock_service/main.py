"""`tsn-clock`: runs a ptp4l for each PTP instance that the agent writes into a directory.

The agent parses the configuration and may not set a clock; this program may, and parses nothing but
what the agent writes. It also sets TAI - UTC in the kernel where nobody has: a schedule counts on
CLOCK_TAI, and a ptp4l whose grandmaster has no reference never sets it.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from agent import journal
from agent.clock_service import leap_seconds
from agent.clock_service.service import DIRECTORY_MODE, ClockService
from agent.kernel import timex
from agent.model import STATE_DIR
from agent.service_manager import notify

LOG = logging.getLogger("tsn-clock")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; exit status 0 stopped, 1 cannot serve, 2 bad arguments."""
    options = parser().parse_args(arguments)
    journal.configure(options.log_level.upper(), "tsn-clock")
    set_tai_offset(options.leap_seconds)
    directory = options.state_dir / "ptp"
    try:
        directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        service = ClockService(directory)
    except BlockingIOError:
        LOG.error("%s: another tsn-clock runs the daemons of this directory", directory)
        return 1
    except OSError as error:
        LOG.error("%s: %s", directory, error)
        return 1
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: service.stop())
    LOG.info("ready")
    notify("READY=1")
    service.run()
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line; its help is the manual page, too."""
    result = argparse.ArgumentParser(prog="tsn-clock", description=__doc__)
    result.add_argument(
        "--log-level",
        default="info",
        choices=("debug", "info", "warning", "error"),
        help="what to write to stderr (default: %(default)s)",
    )
    result.add_argument(
        "--state-dir",
        type=Path,
        default=STATE_DIR,
        help="that of the agent whose PTP instances these are (default: %(default)s)",
    )
    result.add_argument(
        "--leap-seconds",
        type=Path,
        default=leap_seconds.FILE,
        metavar="FILE",
        help="the system's list of leap seconds (default: %(default)s)",
    )
    return result


def set_tai_offset(leap_seconds_file: Path) -> None:
    """Set TAI - UTC in the kernel, unless somebody has; what stands in the way is logged."""
    try:
        if timex.read().tai_offset_s:
            return
        listed = leap_seconds.read(leap_seconds_file)
        now_s = int(time.time())
        if listed.expires_s is not None and listed.expires_s < now_s:
            LOG.warning("%s has expired: update the package tzdata", leap_seconds_file)
        timex.set_tai_offset(listed.tai_offset_s(now_s))
        LOG.info("TAI is %d s ahead of UTC (%s)", listed.tai_offset_s(now_s), leap_seconds_file)
    except OSError as error:
        LOG.error("the kernel's TAI offset stays 0: %s", error)
    except ValueError as error:
        LOG.error("the kernel's TAI offset stays 0: %s: %s", leap_seconds_file, error)


if __name__ == "__main__":
    sys.exit(main())
