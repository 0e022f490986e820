"""Switches in a line, each a kernel whose oscillator is off, kept in step by ptp4l.

All follow the first one, whose oscillator is right, over 1, 2, … hops. Recorded are the true offset
of each clock from the start of its kernel on, and each second what its ptp4l says of itself. After
a while the ptp4l of the first switch is killed, and comes back. The last cable takes longer one way
than the other.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from cnc import intent as intents
from cnc.errors import CncError
from cnc.model import NS_PER_S, Intent
from cnc.support.format import duration
from cnc.testbed.experiments import clocked
from cnc.testbed.experiments.clocked import Clocks
from cnc.testbed.experiments.description import SyncDescription
from cnc.testbed.experiments.experiment import Progress, Report, Sheet, read_rows, write_rows
from cnc.testbed.experiments.sync.figures import Hop, Said, hops_of
from cnc.testbed.experiments.sync.pictures import sync_pictures
from cnc.testbed.lab.kernels import gptp, offsets
from cnc.testbed.lab.kernels.offsets import Offset, TrueOffsets
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab
from cnc.testbed.lab.vm.runner import VIRTUAL_EPOCH_NS

COLUMNS = ("time_ns", "node", "event", "offset_ns", "steps_removed")
SAYS, KILLED, BACK = "says", "killed", "back"
RECORD_EVERY_NS = 100_000_000
_ALL = "all"  # the part of offsets.csv
_SETTLING_S = 10  # after it has come back, for the others to follow it again
_ASYMMETRY_TOLERANCE_NS = 100
# What pmc prints of a ptp4l, and the line that the loop around it adds.
_SAID = re.compile(r"stepsRemoved\s+(\d+)\s+offsetFromMaster\s+(\S+)")

# What the rates, lengths and classes of the line are does not matter: no frame is scheduled.
_LINE: dict[str, Any] = {
    "defaults": {"rate": "1Gbps", "propagation": "100ns", "user": "root"},
    "classes": {
        "cyclic": {"traffic-class": 1, "priority": 1, "dscp": 16, "role": "scheduled"},
        "best-effort": {"traffic-class": 0, "priority": 0, "dscp": 0, "role": "best-effort"},
    },
    "streams": {},
}


@dataclass(frozen=True, slots=True)
class Sync:
    """The experiment of a file of kind sync."""

    description: SyncDescription

    @property
    def emulated(self) -> Intent:
        about = self.description
        names = [f"s{number}" for number in range(1, about.switches + 1)]
        way_ns = 1_000
        # A lab has a frame spend the processing time of a switch on the cable to it.
        last = {"processing": _always(way_ns + about.asymmetry_ns)}
        switches = {
            name: {
                "management": f"10.99.0.{number}",
                "ports": ["left", "right"],
                **(last if number == about.switches else {}),
            }
            for number, name in enumerate(names, start=1)
        }
        document = {
            **_LINE,
            "name": about.name,
            "defaults": {
                **_LINE["defaults"],
                "processing": _always(way_ns),
                "clock-error": f"{about.allowed_ns}ns",
            },
            "switches": switches,
            "end-stations": [],
            "links": [[f"{one}/right", f"{next_}/left"] for one, next_ in pairwise(names)],
        }
        line = intents.from_document(document, f"the network of {about.name}")
        return clocked.with_oscillators(line, about.name, about.oscillators_ppb)

    def run_on(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Ask each ptp4l once a second while the first one is killed and comes back; instants in
        rows count from the start of the kernels."""
        about = self.description
        first, *others = running.intent.network.bridges
        steady_s, away_s = about.steady_ns // NS_PER_S, about.grandmaster_away_ns // NS_PER_S
        seconds = 2 * steady_s + away_s + _SETTLING_S
        asked = {name: _ask(running, name, seconds) for name in others}
        clocks = Clocks(running)
        progress(f"in step, for {steady_s} s")
        time.sleep(steady_s)
        killed_ns = _now_ns()
        clocks.stop_following(first)
        progress(f"without {first}, for {away_s} s")
        time.sleep(away_s)
        back_ns = _now_ns()
        clocks.follow_again(first)
        progress("with it again")
        rows: list[tuple[object, ...]] = [
            (killed_ns, first, KILLED, None, None),
            (back_ns, first, BACK, None, None),
        ]
        for name, process in asked.items():
            printed, _ = process.communicate()
            rows += [
                (said.time_ns, name, SAYS, said.offset_ns, said.steps_removed)
                for said in what_was_said(printed)
            ]
        write_rows(directory, COLUMNS, sorted(rows, key=lambda row: (row[0], row[1])))
        recorded = running.nodes.clock_offsets()
        if recorded is None:
            raise CncError("the lab has one clock", hint="`--kernels own` gives each node its own")
        clocked.write_offsets(directory, {_ALL: _thinned(offsets.read(recorded))})

    def report(self, directory: Path, platform: Platform) -> Report:
        about = self.description
        said: dict[str, list[Said]] = defaultdict(list)
        events_ns = {}
        for row in read_rows(directory):
            time_ns = int(row["time_ns"])
            if row["event"] == SAYS:
                said[row["node"]].append(
                    Said(time_ns, float(row["offset_ns"]), int(row["steps_removed"]))
                )
            else:
                events_ns[row["event"]] = time_ns
        truth = TrueOffsets(clocked.read_offsets(directory)[_ALL])
        nodes = list(self.emulated.network.bridges)
        hops = hops_of(
            nodes,
            truth,
            said,
            away_ns=(events_ns[KILLED], events_ns[BACK]),
            allowed_ns=about.allowed_ns,
        )
        return Report(
            summary={
                "allowed_ns": about.allowed_ns,
                "asymmetry_ns": about.asymmetry_ns,
                "events_ns": events_ns,
                "hops": [hop.document() for hop in hops],
                "clock": platform.clock,
            },
            sheets=[_table(hops)],
            pictures=sync_pictures(nodes, truth, events_ns, hops, about.allowed_ns),
            disagreements=[line for hop in hops for line in hop.disagreements(about.allowed_ns)]
            + self._about_asymmetry(hops),
            remarks=self._remarks(),
            modelled=f"{duration(about.asymmetry_ns)} more on the way to the last switch",
        )

    def _about_asymmetry(self, hops: Sequence[Hop]) -> list[str]:
        """What is wrong with the error that the asymmetric cable makes, if anything."""
        expected_ns = -self.description.asymmetry_ns / 2
        *symmetric, last = (
            hop.mean_ns - before_ns
            for hop, before_ns in zip(hops, [0.0, *(h.mean_ns for h in hops)], strict=False)
        )
        found_ns = last - sum(symmetric) / len(symmetric)
        if abs(found_ns - expected_ns) <= _ASYMMETRY_TOLERANCE_NS:
            return []
        line = (
            f"{hops[-1].node}: the asymmetry of {duration(self.description.asymmetry_ns)} sets its "
            f"clock off by {found_ns:.0f} ns; half of it would be {expected_ns:.0f} ns"
        )
        return [line]

    def _remarks(self) -> list[str]:
        oscillators = clocked.about_oscillators(self.description.oscillators_ppb)
        own = (
            "ptp4l measures the distance from the neighbour that it follows, so that what each "
            "says has to be added up to here. It cannot see the asymmetry of a cable."
        )
        relay = (
            "Relay: what IEEE Std 802.1AS allows a time-aware relay to add at each hop, which "
            "corrects the time that it passes on and steers no clock: two time stamps of 40 ns, "
            "and 0.1 ppm of 10 ms (annex B)."
        )
        return [oscillators, own, relay]


def _always(time_ns: int) -> dict[str, str]:
    return {"min": f"{time_ns}ns", "max": f"{time_ns}ns"}


def _now_ns() -> int:
    """True time since the start of the kernels, on their controller."""
    return time.time_ns() - VIRTUAL_EPOCH_NS


def _ask(running: Lab, switch: str, seconds: int) -> subprocess.Popen[str]:
    """Print each second what the ptp4l of a switch says, after the time that its clock shows."""
    socket = gptp.management_socket(running, switch)
    pmc = f"pmc -u -b 0 -t 1 -s {socket} 'GET CURRENT_DATA_SET'"
    script = f"for _ in $(seq {seconds}); do date +%s%N; {pmc}; sleep 1; done"
    command = running.command(switch, ["sh", "-c", script])
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def what_was_said(printed: str) -> Iterator[Said]:
    """The answers in what `_ask` prints, with when they were given; none while there is none."""
    time_ns = 0
    for block in re.split(r"^(?=\d{19}$)", printed, flags=re.MULTILINE):
        if not block:
            continue
        time_ns = int(block.split()[0]) - VIRTUAL_EPOCH_NS
        if match := _SAID.search(block):
            yield Said(time_ns, float(match[2]), int(match[1]))


def _thinned(recorded: Iterable[Offset]) -> Iterator[Offset]:
    return (each for each in recorded if each.time_ns % RECORD_EVERY_NS == 0)


def _table(hops: Sequence[Hop]) -> Sheet:
    return Sheet(
        "Distance from the first switch in true time once in step, and what ptp4l says of its "
        "neighbour, in ns; the greatest distance while the grandmaster was away, and afterwards",
        [
            *("switch", ">hops", ">in step from, s", ">least", ">mean", ">greatest"),
            *(">ptp4l: mean", ">greatest", ">added up", ">relay"),
            *(">away", ">back", ">in step again, s"),
        ],
        [
            [
                *(hop.node, str(hop.number), _s(hop.in_step_ns)),
                *(f"{hop.least_ns:,}", f"{hop.mean_ns:,.0f}", f"{hop.greatest_ns:,}"),
                *(f"{hop.said_mean_ns:,.0f}", f"{hop.said_greatest_ns:,.0f}"),
                *(f"{hop.said_added_ns:,.0f}", f"{hop.relay_ns:,}"),
                *(f"{hop.away_ns:,}", f"{hop.back_ns:,}", _s(hop.in_step_again_ns)),
            ]
            for hop in hops
        ],
    )


def _s(time_ns: int | None) -> str:
    return "never" if time_ns is None else f"{time_ns / NS_PER_S:.1f}"
