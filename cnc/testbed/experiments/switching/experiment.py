"""How evenly a switch in software forwards, by Linux bridge, XDP and AF_XDP, idle and under load.

After Fejes and others, "TSN building blocks in Linux", figure 3: packets at a constant period from
a talker through a switch of two ports to a listener. The paper has three machines, cards with
hardware stamps and stress-ng. Here all are namespaces of one kernel, whose clock they share, beside
programs that compute. The ways take turns, so that what the machine does meanwhile meets all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from cnc.errors import CncError
from cnc.support.format import counted, duration
from cnc.testbed.experiments.experiment import Progress, Report, Sheet, read_rows, write_rows
from cnc.testbed.experiments.switching import network
from cnc.testbed.experiments.switching.figures import (
    AF_XDP,
    ALL,
    CABLE,
    NAMES,
    SWITCHES,
    XDP,
    Jitter,
    Turn,
    Verdict,
    lateness_bins,
    quantile_ns,
    verdicts,
)
from cnc.testbed.experiments.switching.pictures import switching_pictures
from cnc.testbed.experiments.unplanned_description import SwitchingDescription
from cnc.testbed.lab.platform import Platform

COLUMNS = ("round", "way", "busy", "seq", "late_ns", "took_ns")
NOT_MEASURED = "not-measured.json"
POLLS = "polls"
_COMPUTES = "while True: pass"


@dataclass(frozen=True, slots=True)
class Switching:
    """The experiment of a file of kind switching. It measures this machine's own kernel."""

    description: SwitchingDescription

    def run(self, directory: Path, progress: Progress) -> None:
        """Send through one switch after the other.

        Raises:
            CncError: in virtual time, or the network cannot be made.
        """
        if Platform.here().exact:
            raise CncError(
                "in virtual time computing takes no time, and that is what this measures",
                hint="run it without scripts/vm, or without its --virtual-time",
            )
        lacking: dict[str, str] = {}
        write_rows(directory, COLUMNS, self._rows(lacking, progress))
        (directory / NOT_MEASURED).write_text(json.dumps(lacking, indent=2) + "\n")

    def _rows(self, lacking: dict[str, str], progress: Progress) -> Iterator[Sequence[object]]:
        its = self.description
        for number in range(its.rounds):
            for busy in its.busy:
                for way in (CABLE, *SWITCHES):
                    if way in lacking:
                        continue
                    progress(f"round {number + 1}: {NAMES[way]}, beside {busy} busy")
                    try:
                        packets = self._turn(way, busy)
                    except network.NotMeasuredError as error:
                        lacking[way] = str(error)
                        continue
                    for row in packets.rows:
                        yield number, way, busy, *row

    def _turn(self, way: str, busy: int) -> network.Packets:
        its = self.description
        kinds = {XDP: XDP, AF_XDP: f"{AF_XDP}-{its.af_xdp}"}
        if way == AF_XDP and its.af_xdp == POLLS and len(os.sched_getaffinity(0)) == 1:
            raise network.NotMeasuredError(
                "this machine has one processor, and a program that polls leaves it to no other: "
                "--set af-xdp=sleeps"
            )
        with network.network(its.name, way, its.xdp):
            if way not in kinds:
                with _busy(busy):
                    return self._sent()
            with network.two_ports(its.name, kinds[way], its.xdp), _busy(busy):
                return self._sent()

    def _sent(self) -> network.Packets:
        its = self.description
        return network.sent(its.name, its.frames, its.period_ns, its.packet_octets)

    def report(self, directory: Path, platform: Platform) -> Report:
        turns = [*_turns(directory)]
        lacking = json.loads((directory / NOT_MEASURED).read_text())
        found = [*verdicts(turns, self.description.alike)]
        return Report(
            summary={
                "clock": platform.clock,
                "points": [_point(its) for its in _by_way_and_load(turns)],
                "verdicts": [each.document() for each in found],
                "shown": _is_shown(found),
                "not_measured": lacking,
                "talker_late": {
                    str(busy): lateness_bins(late_ns) for busy, late_ns in _late(turns).items()
                },
            },
            sheets=[_table(turns), _table_of_verdicts(found), _table_of_noise(turns)],
            pictures=switching_pictures(turns),
            disagreements=[],
            remarks=[*self._remarks(turns, found, lacking)],
            modelled=None,
        )

    def _remarks(
        self, turns: Sequence[Turn], found: Sequence[Verdict], lacking: Mapping[str, str]
    ) -> Iterator[str]:
        its = self.description
        for way, why in lacking.items():
            yield f"{NAMES[way]}: not measured on this kernel: {why}"
        yield _judged(turns, found)
        yield (
            f"A packet's time counts from the talker's program to the listener's kernel, and so "
            f"holds the talker's socket: without a switch it is that alone. XDP is in {its.xdp} "
            f"mode; the program of AF_XDP {its.af_xdp}, and its frames are copied into its memory "
            "and out of it, since no card is there to do it."
        )


@contextmanager
def _busy(count: int) -> Iterator[None]:
    """So many programs compute for the time of a `with` block."""
    programs = [subprocess.Popen([sys.executable, "-c", _COMPUTES]) for _ in range(count)]
    try:
        yield
    finally:
        for each in programs:
            each.kill()
            each.wait()


def _turns(directory: Path) -> Iterator[Turn]:
    for (number, way, busy), rows in groupby(
        read_rows(directory), lambda row: (int(row["round"]), row["way"], int(row["busy"]))
    ):
        packets = [*rows]
        took_ns = [int(row["took_ns"]) for row in packets if row["took_ns"]]
        if not took_ns:
            raise CncError(f"round {number + 1}, {NAMES[way]}: not one packet arrived")
        yield Turn(number, way, busy, took_ns, [int(row["late_ns"]) for row in packets])


def _by_way_and_load(turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    for busy in dict.fromkeys(turn.busy for turn in turns):
        for way in NAMES:
            if its := [turn for turn in turns if (turn.way, turn.busy) == (way, busy)]:
                yield its


def _late(turns: Sequence[Turn]) -> dict[int, list[int]]:
    late_ns: dict[int, list[int]] = {}
    for turn in turns:
        late_ns.setdefault(turn.busy, []).extend(turn.late_ns)
    return late_ns


def _point(its: Sequence[Turn]) -> dict[str, object]:
    return {
        "way": its[0].way,
        "busy": its[0].busy,
        "packets": sum(len(turn.late_ns) for turn in its),
        "lost": sum(turn.lost for turn in its),
        "medians_ns": [turn.median_ns for turn in its],
        "jitter": asdict(Jitter.of(its)),
        "rounds": [asdict(Jitter.of([turn])) for turn in its],
    }


def _is_shown(found: Sequence[Verdict]) -> bool:
    return bool(found) and all(each.is_shown for each in found)


def _judged(turns: Sequence[Turn], found: Sequence[Verdict]) -> str:
    """The sentence on the order of the ways, with the noise of the machine."""
    late_ns = sorted(time_ns for turn in turns for time_ns in turn.late_ns)
    noise = (
        f"meanwhile this machine woke the talker up to {duration(late_ns[-1])} late (99 %: "
        f"{duration(quantile_ns(late_ns, 990))})"
    )
    held = " and ".join(
        f"{each.held} of {counted(each.rounds, 'round')} beside {each.busy} busy"
        for each in found
        if each.claim == ALL
    )
    shown = "Shown" if _is_shown(found) else "Not shown"
    return f"{shown}: the order of the paper. It was so in {held or 'no round'}; {noise}."


def _us(time_ns: int) -> str:
    return f"{time_ns / 1000:.2f}"


def _table(turns: Sequence[Turn]) -> Sheet:
    rows = []
    for its in _by_way_and_load(turns):
        jitter = Jitter.of(its)
        medians_ns = sorted(turn.median_ns for turn in its)
        rows.append(
            [
                *(NAMES[its[0].way], str(its[0].busy)),
                *(str(sum(len(t.late_ns) for t in its)), str(sum(t.lost for t in its))),
                _us(quantile_ns(medians_ns, 500)),
                *map(_us, (jitter.p50_ns, jitter.p99_ns, jitter.max_ns)),
                _us(min(turn.jitter_ns()[-1] for turn in its)),
            ]
        )
    return Sheet(
        "Time from the talker's program to the listener's kernel, and how far packets are from it",
        [
            *("switch", ">busy", ">packets", ">lost", ">median time, µs", ">jitter: median, µs"),
            *(">99 %, µs", ">greatest, µs", ">in the best round, µs"),
        ],
        rows,
    )


def _table_of_verdicts(found: Sequence[Verdict]) -> Sheet:
    return Sheet(
        "What the paper says, and in how many rounds it was so",
        ["claim", ">busy", ">rounds", "verdict"],
        [
            [
                *(each.claim, str(each.busy), f"{each.held} of {each.rounds}"),
                "shown" if each.is_shown else "not shown",
            ]
            for each in found
        ],
    )


def _table_of_noise(turns: Sequence[Turn]) -> Sheet:
    late = {busy: lateness_bins(late_ns) for busy, late_ns in _late(turns).items()}
    names = [*next(iter(late.values()))] if late else []
    return Sheet(
        "How late this machine woke the talker, in the same turns",
        [">busy", *(f">{name}" for name in names)],
        [[str(busy), *(str(bins[name]) for name in names)] for busy, bins in late.items()],
    )
