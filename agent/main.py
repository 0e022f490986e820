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
from agent.rehearsal import Rehearsal
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
    parser.add_argument(
        "--rehearse",
        type=_ports,
        metavar="PORT[,PORT...]",
        help="keep these ports in memory instead of the kernel: to try a controller against "
        "switches on a machine without taprio",
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(
        level=options.log_level.upper(), format="%(levelname)s %(name)s: %(message)s"
    )
    kernel: Switch
    if options.rehearse:
        LOG.warning("ports in memory: whatever is asked of them, the kernel does nothing")
        kernel = Rehearsal(options.rehearse)
    else:
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


def _ports(text: str) -> list[str]:
    names = text.split(",")
    if not all(names) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r}: expected names that differ: PORT[,PORT...]")
    return names


if __name__ == "__main__":
    sys.exit(main())
