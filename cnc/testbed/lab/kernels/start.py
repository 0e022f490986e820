"""Starts the kernels of a lab: what each is given, and the program that looks after all of them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cnc.errors import CncError, InputError
from cnc.model import Intent
from cnc.testbed.intent.lab_model import Emulation, LabClocks
from cnc.testbed.lab import virtual_network
from cnc.testbed.lab.kernels import beside, layout, offsets
from cnc.testbed.lab.kernels.layout import CONTROLLER, HOME, MARK, SPECIFICATION, Kernel
from cnc.testbed.lab.switch import write_key_pair
from cnc.testbed.lab.template import operators, template
from cnc.testbed.lab.virtual_network.oscillator import is_constant, table
from cnc.testbed.lab.vm import runner

MEMORY_MIB = 512
# Of the controller beside it: each program that it runs on a node has one of 10 MiB that waits for
# it here, and a measurement has a talker and a listener at each node, or two.
CONTROLLER_MIB_A_NODE = 32
# Until then nodes start their programs side by side, on all processors. Fourteen had started them
# after 1.4 s of virtual time.
CABLES_FROM_NS = 2_000_000_000
_NODE_MODULE = "cnc.testbed.lab.kernels.node"


def start(intent: Intent, directory: Path, emulation: Emulation) -> None:
    """Start the kernels of a lab and wait until every switch answers over NETCONF, and its clocks
    have settled, as far as they do, where something keeps them.

    Raises:
        CncError: a program is missing, or a kernel ended; which, and what it said last.
    """
    try:
        runner.artefact("uml") or runner.build("uml")
    except runner.VmError as error:
        raise CncError(
            f"there is no kernel for the nodes: {error}", hint="`scripts/vm --uml --build` makes it"
        ) from None
    program = virtual_network.program()
    home = Path(tempfile.mkdtemp(prefix=f"cnc-lab-{intent.name}-"))
    (directory / HOME).symlink_to(home)
    shared = home / "shared"
    shared.mkdir()
    (shared / layout.INTENT_FILE).write_text(json.dumps(intent.document))
    client = write_key_pair(shared / layout.CLIENT_KEY)
    (shared / f"{layout.CLIENT_KEY}.pub").write_text(f"{client}\n")
    template(intent.name, operators(intent), directory)  # before there are kernels: they only copy
    kernels = layout.kernels(intent)
    beside.write(shared, kernels)
    _write_tables(home, kernels)
    (home / "network").write_text("\n".join([*_network(intent, home, kernels), ""]))
    (home / SPECIFICATION).write_text(
        json.dumps(
            {
                "network": [str(program), str(home / "network")],
                "controller": CONTROLLER,
                "time": emulation.time,
                "kernels": {
                    node: _command(home, kernel, emulation.clocks, len(kernels))
                    for node, kernel in kernels.items()
                },
            }
        )
    )
    _supervise(directory, home)


def _supervise(directory: Path, home: Path) -> None:
    with (home / "supervisor.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "cnc.testbed.lab.kernels.supervisor", str(home)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
            env={**os.environ, MARK: str(directory)},
        )
    (directory / "supervisor.pid").write_text(f"{process.pid}\n")
    assert process.stdout is not None  # noqa: S101  it is a pipe
    said = process.stdout.readline().strip()
    process.stdout.close()
    if said != "ready":
        raise CncError(
            f"the kernels of the lab did not come up: {said or 'their supervisor ended'}",
            hint=(home / "supervisor.log").read_text().strip() or None,
        )


def _network(intent: Intent, home: Path, kernels: dict[str, Kernel]) -> Iterator[str]:
    """The lines that describe the network to virtual-network."""
    yield f"clock {runner.VIRTUAL_EPOCH_NS}"
    yield f"time {home}/time cables-from={CABLES_FROM_NS}"
    for kernel in kernels.values():
        yield f"kernel {kernel.number} {kernel.node} {_oscillator(home, kernel)}"
    sockets = dict(_sockets(home, kernels))
    for kernel in kernels.values():
        for card in kernel.ports:
            path = sockets[card.node, card.port]
            yield f"card {card.node}/{card.port} {card.mac} {path} queues={layout.QUEUES}"
        card = kernel.management
        yield f"card {card.node}/{card.port} {card.mac} {sockets[card.node, card.port]}"
    yield f"console {CONTROLLER} {home}/console"
    yield from layout.cable_lines(intent)
    cards = (kernel.management for kernel in kernels.values())
    yield " ".join(["segment", *(f"{card.node}/{card.port}" for card in cards)])
    yield f"offsets {home}/shared/{offsets.FILE} {offsets.PERIOD_NS}"


def _sockets(home: Path, kernels: dict[str, Kernel]) -> Iterator[tuple[tuple[str, str], str]]:
    """Where each card is: short paths, as a socket's may have 107 octets."""
    for kernel in kernels.values():
        for number, card in enumerate((*kernel.ports, kernel.management)):
            yield (card.node, card.port), f"{home}/{kernel.number}.{number}"


def _write_tables(home: Path, kernels: dict[str, Kernel]) -> None:
    for kernel in kernels.values():
        if not is_constant(kernel.clock):
            try:
                _table_file(home, kernel).write_bytes(table(kernel.clock))
            except ValueError as error:
                raise InputError(f"clock of {kernel.node}: {error}") from None


def _oscillator(home: Path, kernel: Kernel) -> str:
    """What its oscillator does, as its kernel and virtual-network read it."""
    if is_constant(kernel.clock):
        return f"oscillator-ppb={kernel.clock.frequency_offset_ppb}"
    return f"oscillator-table={_table_file(home, kernel)}"


def _table_file(home: Path, kernel: Kernel) -> Path:
    return home / f"{kernel.number}.oscillator"


def _command(home: Path, kernel: Kernel, clocks: LabClocks, nodes: int) -> list[str]:
    """The command line that boots a kernel of a lab that has so many; it is to run in the kernel's
    own directory."""
    is_controller = kernel.node == CONTROLLER
    memory_mib = MEMORY_MIB + (CONTROLLER_MIB_A_NODE * nodes if is_controller else 0)
    run = home / f"node{kernel.number}"
    run.mkdir()
    (run / "out").symlink_to(home / "shared")
    variables = {
        **runner.guest_environment(),
        "TSN_VM": "uml",
        "TSN_VIRTUAL_TIME": "1",
        "CNC_NODE": kernel.node,
    }
    assignments = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    program = shlex.join([sys.executable, "-m", _NODE_MODULE, kernel.node, clocks])
    (run / "command").write_text(f"cd / && exec env -i {assignments} {program}\n")
    cards = [path for (node, _), path in _sockets(home, {kernel.node: kernel})]
    devices = [f"virtio_uml.device={path}:1" for path in cards]
    if is_controller:
        devices.append(f"virtio_uml.device={home}/console:3")
    start_ns = runner.VIRTUAL_EPOCH_NS + kernel.clock.offset_ns
    time = [f"time-travel=ext:{kernel.number}:{home}/time", f"time-travel-start={start_ns}"]
    # Else what comes from random numbers, such as delays of IPv6, differs from run to run.
    seed = f"random-seed={kernel.number}"
    return [
        *runner.uml_boot(run, f"{memory_mib}M", []),
        *time,
        _oscillator(home, kernel),
        seed,
        *devices,
    ]
