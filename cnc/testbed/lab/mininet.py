"""A Mininet `Topo` as an intent: nodes, cables, rates and delays, and no streams yet.

Options that the lab does not emulate are reported, never dropped silently. Addresses are the
lab's own (`cnc.testbed.lab.addressing`), and so is the management network.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from cnc.errors import CncError, InputError
from cnc.intent import from_document
from cnc.intent.source import dump
from cnc.keys.units import DURATION, RATE
from cnc.model import Forwarding, Intent
from cnc.support import whole_file
from cnc.testbed.lab import mininet_script

PYTHON = "/usr/bin/python3"  # Debian's package of Mininet installs for this one
READER = Path(__file__).with_name("mininet_reader.py")

SWITCHES_MAX = 253  # management addresses of one /24, less the controller's
INTERFACE_NAME_MAX = 15
NAME_MAX = 63
PLACES_SHOWN = 3

# Not in a Topo. As in schedules/line3.yaml, but switches bridge, as those of Mininet do, and know
# classes by the priority in the VLAN tag.
DEFAULTS = {
    "rate": "1Gbps",
    "propagation": "100ns",
    "processing": {"min": "1us", "max": "5us"},
    "clock-error": "1us",
    "gate-margin": "0ns",  # for the lab in virtual time, where no timer is late
    "talker-interference": "none",
    "gates": "software",
    "user": "tsn",
    "netconf-port": 830,
}
CLASSES = {
    "control": {
        "traffic-class": 7,
        "priority": 7,
        "role": "control",
        "max-frame": "128B",
        "burst": 1,
    },
    "cyclic": {"traffic-class": 6, "priority": 6, "role": "scheduled"},
    "best-effort": {
        "traffic-class": 0,
        "priority": 0,
        "role": "best-effort",
        "max-frame": "1522B",
    },
}

ADDRESSES = ("ip", "mac", "defaultRoute", "addr1", "addr2")
LINK_CLASSES = ("Link", "TCLink")  # same as the lab's cables

_NS_PER_UNIT = {
    **dict.fromkeys(("s", "sec", "secs"), 10**9),
    **dict.fromkeys(("ms", "msec", "msecs"), 10**6),
    **dict.fromkeys(("us", "usec", "usecs", ""), 10**3),  # tc reads a bare number as microseconds
    **dict.fromkeys(("ns", "nsec", "nsecs"), 1),
}


@dataclass(frozen=True, slots=True)
class Imported:
    """An intent without streams; `ignored` describes the options of the Topo that it does not
    represent.

    `shaped`: some link has a rate or delay of its own.
    """

    intent: Intent
    shaped: bool
    ignored: Sequence[str]

    def text(self, file: Path) -> str:
        """The intent as YAML, for an operator to add streams to; `file` is where it comes from."""
        document = dump(self.intent.document)
        return f"# The Mininet topology of {file.name}. Add streams, then: cnc plan\n{document}"


def read(file: Path, chosen: str | None = None) -> Imported:
    """The Mininet topology of a Python file. This runs the file's code, as the caller's user, where
    it defines a Topo. A script that builds its network by itself is read (`mininet_script`).

    `chosen` has the syntax of Mininet's --topo: NAME[,ARG,KEY=VALUE...], NAME a key of the file's
    `topos`. Without it the file must define exactly one topology.

    Raises:
        InputError: the file fails, defines several topologies, or one that an intent cannot
            describe; or Mininet is not installed.
    """
    topology = _topology(file, chosen)
    switches = [node["name"] for node in topology["nodes"] if node["switch"]]
    if len(switches) > SWITCHES_MAX:
        raise InputError(
            f"{file}: it has {len(switches)} switches; the lab has management addresses for "
            f"{SWITCHES_MAX}",
            hint="use a smaller topology",
        )
    notes, routed = _Notes(file), bool(topology.get("routed"))
    topology = _with_names(topology, notes)
    switches = [node["name"] for node in topology["nodes"] if node["switch"]]
    ports: dict[str, list[str]] = {node["name"]: [] for node in topology["nodes"]}
    links = [_link(link, ports, notes) for link in topology["links"]]
    for node in topology["nodes"]:
        kind = "switch" if node["switch"] else "host"
        for option in node["options"]:
            notes.ignore(kind, option, node["name"])
    document = {
        "name": _lab_name(file),
        "forwarding": Forwarding.ROUTED.value if routed else Forwarding.BRIDGED.value,
        "defaults": DEFAULTS,
        "classes": _with_dscp(CLASSES) if routed else CLASSES,
        "switches": {
            name: {"management": f"10.99.0.{number}", "ports": ports[name]}
            for number, name in enumerate(switches, start=1)
        },
        "end-stations": {
            name: {"ports": node_ports} if node_ports else {}
            for name, node_ports in ports.items()
            if name not in switches
        },
        "links": links,
        "streams": {},
    }
    return Imported(
        from_document(document, str(file)),
        any(isinstance(link, dict) for link in links),
        notes.lines(),
    )


def _topology(file: Path, chosen: str | None) -> dict[str, Any]:
    """That of a Topo, for which its code is run; of a script that builds its network by itself,
    which is read."""
    try:
        whole_file.refuse_special(file)
        source = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot read it: {error}") from error
    if mininet_script.is_script(source):
        return mininet_script.read(file, source, chosen)
    return _read_topology(file, chosen)


def _with_dscp(classes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Routers know frames by their DSCP: the class selector of each class' traffic class."""
    return {name: {**its, "dscp": 8 * int(its["traffic-class"])} for name, its in classes.items()}


def _read_topology(file: Path, chosen: str | None) -> dict[str, Any]:
    command = [PYTHON, "-I", str(READER), str(file), *([chosen] if chosen else [])]
    try:
        run = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False
        )
    except OSError as error:
        raise CncError(
            f"cannot run {PYTHON}: {error.strerror}", hint="apt install mininet"
        ) from None
    try:
        reply: dict[str, Any] = json.loads(run.stdout)
    except json.JSONDecodeError:
        raise InputError(
            f"{file}: the Python that ran it ended with {run.returncode} and without a topology",
            hint=f"run `{PYTHON} {file}` for details; the file must not exit by itself",
        ) from None
    if "error" in reply:
        raise InputError(reply["error"], hint=reply["hint"])
    return reply


class _Notes:
    """Collects what is ignored: one line for each option, however many nodes have it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._places: dict[tuple[str, str], list[str]] = {}
        self._other: list[str] = []

    def ignore(self, kind: str, option: str, place: str) -> None:
        self._places.setdefault((kind, option), []).append(place)

    def add(self, text: str) -> None:
        self._other.append(f"{self.file}: {text}")

    def lines(self) -> list[str]:
        result = []
        for (kind, option), places in self._places.items():
            shown = ", ".join(places[:PLACES_SHOWN])
            more = len(places) - PLACES_SHOWN
            why = "the lab gives addresses of its own" if option in ADDRESSES else "not emulated"
            result.append(
                f"{self.file}: {kind} option {option} is ignored ({why}): {shown}"
                + (f" and {more} more" if more > 0 else "")
            )
        return result + self._other


def _with_names(topology: Mapping[str, Any], notes: _Notes) -> dict[str, Any]:
    """The topology with names that an intent takes: a letter first, then letters, digits, - and _.
    Mininet takes any."""
    names: dict[str, str] = {}
    taken = {node["name"] for node in topology["nodes"]}
    for node in topology["nodes"]:
        name = node["name"]
        short = _as_name(name, "n")
        if short != name:
            while short in taken:
                short = f"{short[: NAME_MAX - 1]}x"
            why = "a name here begins with a letter, without dots"
            notes.add(f"node {name} is renamed to {short}: {why}")
        names[name] = short
        taken.add(short)
    return {
        "nodes": [{**node, "name": names[node["name"]]} for node in topology["nodes"]],
        "links": [
            {**link, "ends": [(names[node], port) for node, port in link["ends"]]}
            for link in topology["links"]
        ],
    }


def _link(
    link: Mapping[str, Any], ports: Mapping[str, list[str]], notes: _Notes
) -> list[str] | dict[str, Any]:
    """The link of the document; its ports are added to those of their nodes."""
    place = "-".join(node for node, _ in link["ends"])
    options = dict(link["options"])
    if options.get("cls") in LINK_CLASSES:
        del options["cls"]
    ends = []
    for number, (node, port) in enumerate(link["ends"], start=1):
        name = options.pop(f"intfName{number}", None) or f"{node}-eth{port}"
        if len(name) > INTERFACE_NAME_MAX:
            notes.add(f"interface {name} is renamed to eth{port}: its name is too long for Linux")
            name = f"eth{port}"
        ports[node].append(name)
        ends.append(f"{node}/{name}")
    timing: dict[str, Any] = {}
    if (bandwidth := options.pop("bw", None)) is not None:
        timing["rate"] = RATE.format(_rate_bps(bandwidth, f"{notes.file}: link {place}: bw"))
    if (delay := options.pop("delay", None)) is not None:
        timing["propagation"] = DURATION.format(
            _delay_ns(delay, f"{notes.file}: link {place}: delay")
        )
    for option, value in options.items():
        if value:  # loss=0 has no effect
            notes.ignore("link", option, place)
    return {"ends": ends, **timing} if timing else ends


def _rate_bps(bandwidth: object, where: str) -> int:
    """Mininet's `bw`: Mbit/s."""
    if (
        isinstance(bandwidth, bool)
        or not isinstance(bandwidth, int | float)
        or not math.isfinite(bandwidth)
        or (rate_bps := round(Fraction(str(bandwidth)) * 10**6)) < 1
    ):
        raise InputError(
            f"{where}: found {bandwidth!r}, expected a number of Mbit/s such as 100",
            hint="correct the option bw of this link in the topology",
        )
    return rate_bps


def _delay_ns(delay: object, where: str) -> int:
    """Mininet's `delay`: a time as tc reads it."""
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]*)\s*", str(delay))
    if match is None or match[2] not in _NS_PER_UNIT:
        raise InputError(
            f"{where}: found {delay!r}, expected a time such as '5ms' or '10us'",
            hint="correct the option delay of this link in the topology",
        )
    return round(Fraction(match[1]) * _NS_PER_UNIT[match[2]])


def _lab_name(file: Path) -> str:
    return _as_name(file.stem, "topo-")


def _as_name(text: str, prefix: str) -> str:
    """A name of an intent that is like the text; `prefix` is for those that begin otherwise."""
    name = re.sub(r"[^A-Za-z0-9_-]", "-", text)
    return (name if re.match("[A-Za-z]", name) else f"{prefix}{name}")[:NAME_MAX]
