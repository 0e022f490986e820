"""`tsn-agent`: brings the configuration in sysrepo into the kernel, and the kernel's state back."""

from __future__ import annotations

import argparse
import logging
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from agent import journal
from agent.datastore.changes import log_changes
from agent.datastore.memory import MemoryFile
from agent.datastore.rollouts import AppliedRollouts
from agent.datastore.subscriptions import Datastore, DatastoreError
from agent.kernel.ports import KernelPorts
from agent.mechanisms import MECHANISMS, mechanisms
from agent.memory_ports import MemoryPorts, rehearsal_ports
from agent.model import STATE_DIR, AgentError
from agent.service_manager import notify, watchdog_interval_s
from agent.switch import Ports, Switch

LOG = logging.getLogger("tsn-agent")

BAD_ARGUMENTS = 2  # as argparse
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; exit status 0 stopped, 1 cannot serve, 2 bad arguments."""
    options = parser().parse_args(arguments)
    if options.rehearse_bridge and not options.rehearse:
        parser().error("argument --rehearse-bridge: only with --rehearse")
    journal.configure(options.log_level.upper(), "tsn-agent")
    ports: Ports
    if options.rehearse:
        LOG.warning("ports in memory: whatever is asked of them, the kernel does nothing")
        in_memory = rehearsal_ports(options.rehearse, options.rehearse_bridge, options.emulate)
        ports = MemoryPorts(MECHANISMS, in_memory)
    else:
        try:
            ports = KernelPorts(
                mechanisms(options.state_dir, shared_clock=options.shared_clock), options.emulate
            )
        except AgentError as error:
            LOG.error("%s", error)
            return BAD_ARGUMENTS
    switch = Switch(ports)
    try:
        if options.withdraw:
            return withdraw(switch)
        memory_file = MemoryFile(options.state_dir / "memory.json")
        rollouts = AppliedRollouts((options.durable_dir or options.state_dir) / "rollouts.json")
        return serve(switch, memory_file, options.state_dir / "wake-ups.json", rollouts)
    finally:
        ports.close()


def parser() -> argparse.ArgumentParser:
    """The command line; its help is the manual page, too."""
    result = argparse.ArgumentParser(prog="tsn-agent", description=__doc__)
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
        help="what must outlive a restart, offsets.json for local talkers, and BPF objects in bpf; "
        "one directory for each agent (default: %(default)s)",
    )
    result.add_argument(
        "--durable-dir",
        type=Path,
        metavar="DIRECTORY",
        help="what must outlive a reboot: rollouts.json, the ids of the rollouts that were applied "
        "last, and terms.json, who acts for the network; one directory for each agent (default: "
        "that of --state-dir)",
    )
    result.add_argument(
        "--rehearse",
        type=_ports,
        metavar="PORT[,PORT...]",
        help="keep these ports in memory instead of the kernel: to try a controller against "
        "switches on a machine without taprio",
    )
    result.add_argument(
        "--rehearse-bridge",
        metavar="BRIDGE",
        help="with --rehearse: these ports are ports of a bridge with VLAN filtering, of this name",
    )
    result.add_argument(
        "--emulate",
        type=_rates,
        default={},
        metavar="PORT=BPS[,PORT=BPS...]",
        help="these ports are cables of an emulated network, with links of so many bits per second "
        "(veth interfaces only): gates reckon with these rates, and they are reported. With "
        "--rehearse they are only reported",
    )
    result.add_argument(
        "--shared-clock",
        action="store_true",
        help="all switches of the network have the clock of this machine, as those of an emulated "
        "network on one kernel",
    )
    result.add_argument(
        "--withdraw",
        action="store_true",
        help="remove the qdiscs, rules, filtering entries and members of VLANs that an agent has "
        "set, set net.core.dev_weight_tx_bias back, leave what is of others, and end; "
        "stop the agent first",
    )
    return result


def serve(
    switch: Switch,
    memory_file: MemoryFile | None = None,
    wake_ups_file: Path | None = None,
    rollouts: AppliedRollouts | None = None,
) -> int:
    """Serve sysrepo with `switch` until a signal asks to stop. The ports then stay as they are.

    Without a `wake_ups_file` it is not measured how late timers wake up.
    """
    # Before any thread starts, so that the signals wait for sigwait() below.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    for mechanism, reason in switch.ports.capabilities().items():
        LOG.warning("%s will be refused: %s", mechanism, reason)
    try:
        datastore = Datastore(switch, memory_file=memory_file, rollouts=rollouts)
    except DatastoreError as error:
        LOG.error("%s", error)
        return 1
    if wake_ups_file:
        switch.ports.measure_wake_ups(wake_ups_file)
    LOG.info("ready")
    notify("READY=1")
    received = _wait_for_stop(datastore)
    LOG.info("%s: stopping; the ports keep their schedules", signal.Signals(received).name)
    notify("STOPPING=1")
    datastore.close()
    return 0


def withdraw(switch: Switch) -> int:
    """Take back what agents have set on this switch; exit status 0, or 1: the kernel refused."""
    try:
        withdrawn = switch.apply({})
        switch.ports.remove_probe()
    except AgentError as error:
        LOG.error("%s", error)
        return 1
    log_changes(withdrawn)
    return 0


def _wait_for_stop(datastore: Datastore) -> int:
    """The signal that was received; until then notifies the watchdog while clients are answered."""
    interval_s = watchdog_interval_s()
    if interval_s is None:
        return signal.sigwait(STOP_SIGNALS)
    while (received := signal.sigtimedwait(STOP_SIGNALS, interval_s)) is None:
        if datastore.answers():
            notify("WATCHDOG=1")
        else:
            LOG.warning("no answer to a request for the agent's state")
    return received.si_signo


def _ports(text: str) -> list[str]:
    names = text.split(",")
    if not all(names) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r}: expected names that differ: PORT[,PORT...]")
    return names


def _rates(text: str) -> dict[str, int]:
    """The rate of each port in bit/s."""
    rates = [re.fullmatch(r"([^=]+)=([1-9][0-9]*)", each) for each in text.split(",")]
    result = {match[1]: int(match[2]) for match in rates if match}
    if len(result) < len(rates):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected names that differ and bits per second: PORT=BPS[,PORT=BPS...]"
        )
    return result


if __name__ == "__main__":
    sys.exit(main())
