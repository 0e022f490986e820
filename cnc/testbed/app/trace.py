"""Account for the time of each frame, of a lab's streams or of packets between two hosts."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from cnc.app import intent_of
from cnc.support import whole_file
from cnc.testbed.app import tracing
from cnc.testbed.lab.platform import made_by
from cnc.testbed.traffic.trace import captured
from cnc.testbed.traffic.trace.account import Account, Layer, layers
from cnc.testbed.traffic.trace.columns import ByPath
from cnc.testbed.traffic.trace.imported import HOPS, Imported
from cnc.testbed.traffic.trace.margins import Margins
from cnc.testbed.traffic.trace.report import TraceReport
from cnc.testbed.traffic.trace.table import Tables

CAPTURE = "trace.pcapng"


@dataclass(frozen=True, slots=True)
class Keep:
    """What to keep of a trace beside its figures.

    `frame` is a flow and a number. Tables of all frames, and a capture, go to `output`. All
    `directories` are made, once there is something for them, and state the platform. None: nothing.
    """

    frame: tuple[str, int] | None = None
    output: Path | None = None
    pictures: Path | None = None

    @property
    def flow(self) -> str:
        """That of the frame; empty: none is wanted."""
        return self.frame[0] if self.frame else ""

    def directories(self) -> Iterator[Path]:
        """Those that are wanted."""
        yield from filter(None, (self.pictures, self.output))

    def make_directories(self) -> None:
        for directory in self.directories():
            directory.mkdir(parents=True, exist_ok=True)


def of_lab(sending: tracing.Sending, keep: Keep, command: str | None) -> TraceReport:
    """Send the streams of a file through its lab, and account for all frames. `command` is stated
    where results are kept.

    Raises what `tracing.traced` does.
    """
    intent = intent_of(sending.document)
    with ExitStack() as stack:
        directory = keep.output or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        recorded, platform = tracing.traced(sending, directory, keep=bool(keep.output))
    keep.make_directories()
    margins = Margins(recorded.plan, recorded.under.clocks)
    start_ns = recorded.start_ns
    by_path = ByPath(recorded.under.durations_off_ns)
    accounts, hops_max = recorded.accounts(), recorded.hops_max
    frames = _take(
        *(accounts, keep, start_ns, hops_max),
        (by_path.add, lambda each: margins.add(each.row)),
        layers=layers(with_kernel=sending.kernel, with_tcp=bool(sending.tcp)),
    )
    if keep.output:
        with whole_file.opened(keep.output / CAPTURE) as capture:
            captured.write(recorded, capture, system=platform.kernel)
    for kept in keep.directories():
        platform.write(kept, made_by(command))
    return TraceReport(
        of=intent.name,
        paths=by_path.paths(),
        frames=frames,
        start_ns=start_ns,
        facts={"network": intent.name, "measured on": str(platform)},
        platform=platform,
        margins=margins.hops(),
        true_time=recorded.true_time,
    )


def of_hosts(files: tuple[Path, ...], keep: Keep) -> TraceReport:
    """Account for all packets that tsn-probe or isochron recorded between two hosts.

    Raises InputError for files that are none of theirs, or a flow that they do not have.
    """
    imported = Imported(files)
    tracing.refuse_unknown(keep.flow, [imported.flow.name])
    keep.make_directories()
    by_path = ByPath()
    frames = _take(
        imported.accounts(), keep, imported.start_ns, HOPS, (by_path.add,), layers=layers()
    )
    run = imported.run()
    return TraceReport(
        of=imported.flow.name,
        paths=by_path.paths(),
        frames=frames,
        start_ns=imported.start_ns,
        facts={f"measured by {run.program} from": f"{run.sender.name} to {run.receiver.name}"},
        imported=run,
    )


def _take(
    accounts: Iterable[Account],
    keep: Keep,
    start_ns: int,
    hops_max: int,
    each_into: Sequence[Callable[[Account], None]],
    *,
    layers: Sequence[Layer],
) -> Sequence[Account]:
    """Take accounts one at a time, and write the tables if there is a directory for them; those
    that are wanted."""
    frames = []
    with ExitStack() as stack:
        takers = [*each_into]
        if keep.output:
            tables = Tables(keep.output, start_ns, hops_max, layers)
            takers.append(stack.enter_context(tables).add)
        for each in accounts:
            for take in takers:
                take(each)
            if keep.frame == (each.row.flow.name, each.row.seq):
                frames.append(each)
    return frames
