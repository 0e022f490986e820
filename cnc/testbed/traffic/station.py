"""The program of one end station, run on a node of a lab; see `cnc.testbed.traffic.endpoint`."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cnc.errors import CncError
from cnc.model import NS_PER_S
from cnc.talker import tai_ns
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic import endpoint
from cnc.testbed.traffic.ethernet import Arrival, Destination

FINISH_TIMEOUT_S = 60  # for an end station that writes its result on a loaded machine


class Station:
    """One end station's program, from its start to its result: `endpoint`, or another `file`.

    Once it is ready, `ahead_ns` is how far its CLOCK_TAI is ahead of this machine's, below 0
    behind, less the time that its report took: where nodes have clocks of their own, instants are
    by theirs.
    """

    def __init__(
        self,
        lab: Lab,
        verb: str,
        node: str,
        number: int,
        spec: Mapping[str, Any],
        *,
        file: str | None = None,
    ) -> None:
        self._file = file
        self._lab = lab
        self._verb = verb
        self.node = node
        self._name = f"{verb}-{node}-{number}"
        self._spec = spec
        self._log = Path()
        self._output = Path()
        self._program: subprocess.Popen[str] | None = None
        self.ahead_ns = 0

    def start(self, directory: Path, parameters: Mapping[str, Any]) -> None:
        file = directory / f"{self._name}.json"
        self.result_in(directory)
        self._log = file.with_suffix(".log")
        program = self._written(file, parameters)
        self._lab.nodes.put(self.node, file)
        with self._log.open("w") as log:
            self._program = subprocess.Popen(
                self._lab.command(self.node, program),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def _written(self, file: Path, parameters: Mapping[str, Any]) -> Sequence[str]:
        """The program to run, for which `file` has been written."""
        file.write_text(json.dumps({**self._spec, **parameters, "output": str(self._output)}))
        return [sys.executable, "-I", self._file or endpoint.__file__, self._verb, str(file)]

    def result_in(self, directory: Path) -> None:
        """Say in which directory its result is to be, or is, of a program that has ended."""
        self._output = directory / f"{self._name}.csv"

    def await_ready(self) -> None:
        said = self._running.stdout.readline().split() if self._running.stdout else []
        if said[:1] != ["ready"]:
            raise self._failure("ended before it was ready")
        self.ahead_ns = int(said[1]) - tai_ns()

    @property
    def pid(self) -> int:
        """The process of its program, where nodes are namespaces of this kernel."""
        return self._running.pid

    def send_start(self, start_ns: int) -> None:
        self.tell(str(start_ns))

    def tell(self, line: str) -> None:
        """Write a line to the program's standard input."""
        if self._running.stdin is not None:
            self._running.stdin.write(f"{line}\n")
            self._running.stdin.flush()

    def finish(self, expected_s: float = 0.0) -> None:
        """Close the program's standard input, and wait for its result."""
        behind_s = max(0, -self.ahead_ns) / NS_PER_S  # its instants come so much later
        try:
            self._running.communicate(timeout=expected_s + behind_s + FINISH_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise self._failure(f"did not end within {FINISH_TIMEOUT_S} s of its time") from None
        if self._running.returncode != 0:
            raise self._failure(f"ended with {self._running.returncode}")
        self._lab.nodes.get(self.node, self._output)
        if self._verb == "talk":
            self._lab.nodes.get(self.node, self._destinations)

    def end(self) -> None:
        if self._program is not None:
            self._program.kill()
            self._program.communicate()

    def rows(self) -> Iterator[list[str]]:
        """The rows that another program than `endpoint` wrote, below their header."""
        return self._rows()

    def sent(self) -> Iterator[list[Any]]:
        """The rows that a talker recorded, integers or None; see `endpoint.talk`."""
        return ([_number(value) for value in row] for row in self._rows())

    def arrivals(self) -> Iterator[Arrival]:
        """What a listener received; see `endpoint.listen`."""
        for row in self._rows():
            number, seq, received_ns = map(int, row[:3])
            *tag, delivered_ns = row[3:]
            destination_mac, vlan_id, pcp = tag or ("", "", "")
            yield Arrival(
                number,
                seq,
                received_ns,
                destination_mac or None,
                _number(vlan_id),
                _number(pcp),
                _number(delivered_ns),
            )

    def destinations(self) -> Iterator[tuple[int, int, Destination]]:
        """The flows that a talker sent into a bridged network, with the first sequence number that
        went to each destination, in order."""
        for row in _rows(self._destinations):
            yield int(row[0]), int(row[1]), (row[2], _number(row[3]), _number(row[4]))

    def _rows(self) -> Iterator[list[str]]:
        yield from _rows(self._output)

    @property
    def _destinations(self) -> Path:
        return Path(endpoint.destinations_file(str(self._output)))

    @property
    def _running(self) -> subprocess.Popen[str]:
        if self._program is None:
            raise RuntimeError("start() comes first")
        return self._program

    def _failure(self, how: str) -> CncError:
        return CncError(
            f"end station {self.node} could not {self._verb}: its program {how}",
            hint=self._log.read_text().strip() or None,
        )


def _rows(file: Path) -> Iterator[list[str]]:
    """The rows of a CSV file below its header."""
    with file.open(newline="") as opened:
        rows = csv.reader(opened)
        next(rows)
        yield from rows


def _number(value: str) -> int | None:
    return int(value) if value else None
