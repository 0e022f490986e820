"""`tsn-agent`: brings the configuration in sysrepo into the kernel, and the kernel's state back."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from agent.datastore.memory import MemoryFile
from agent.datastore.subscriptions import Datastore, DatastoreError
from agent.datastore.switch import Switch
from agent.kernel import Kernel
from agent.service_manager import notify

LOG = logging.getLogger("tsn-agent")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; exit status 0 stopped, 1 cannot serve, 2 bad arguments."""
    parser = argparse.ArgumentParser(prog="tsn-agent", description=__doc__)
    parser.add_argument(
        "--log-level",
        default="info",
        choices=("debug", "info", "warning", "error"),
        help="what to write to stderr (default: %(default)s)",
    )
    parser.add_argument(
        "--state-dir",
        type=Path,
        default=Path("/run/tsn-agent"),
        help="what must outlive a restart, one directory for each agent (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(
        level=options.log_level.upper(), format="%(levelname)s %(name)s: %(message)s"
    )
    kernel = Kernel()
    try:
        return serve(kernel, MemoryFile(options.state_dir / "memory.json"))
    finally:
        kernel.close()


def serve(switch: Switch, memory_file: MemoryFile | None = None) -> int:
    """Serve sysrepo with `switch` until a signal asks to stop. The ports then stay as they are."""
    # Before any thread starts, so that the signals wait for sigwait() below.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    lacking = switch.capability()
    if lacking:
        LOG.warning("gates will be refused: %s", lacking)
    try:
        datastore = Datastore(switch, memory_file=memory_file)
    except DatastoreError as error:
        LOG.error("%s", error)
        return 1
    LOG.info("ready")
    notify("READY=1")
    received = signal.sigwait(STOP_SIGNALS)
    LOG.info("%s: stopping; the ports keep their schedules", signal.Signals(received).name)
    notify("STOPPING=1")
    datastore.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
