"""Puts the parts of the matrix together: one list, one table, one verdict."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cnc.model import NS_PER_S
from tests.fault.table import Recovery, Row, from_json, to_json, to_markdown

HEAD = """\
# Fault matrix of a rollout

Made by `scripts/fault-matrix`; not written by hand. Each cell is one `cnc push` to five switches,
on a real kernel, with one fault at one step. *Old* and *new* name the schedule that **all** ports
run after it.

- Steps are those of a push in which nothing fails, as its processes pass them: the controller's
  (`cnc`) RPCs to the third switch and its journal, that switch's netlink requests (`tsn-agent`) and
  the files that the broker of its NETCONF server syncs. A number distinguishes repeated visits of a
  step. Requests that only read from the kernel have no *after*: it equals *before* of the next.
- The fault occurs while the process waits at the step. The controller, the third switch's agent, or
  the front or the broker of its NETCONF server is killed (SIGKILL), or its management link is cut,
  without a reset. The spawner and the session processes die with the front; a front without a
  broker ends, and a broker without a front, once it has undone what was not confirmed.
- A link that is late holds the packets to the third switch from the step on, new connections and
  resets in their order behind a commit, and delivers them 0.5 s after the base time; where none has
  been chosen yet, after the earliest that could be. There gates of both schedules may be in force
  only until an operator has chosen. [late-link.md](late-link.md) has more moments, RPC by RPC.
- Then the push ends, what was killed is restarted, the link is restored, and the timeouts of the
  switches expire. `--resume` or `--rollback` marks rows in which the network then still needed an
  operator's decision; half of these rows used the one and half the other.
- *Mixed* is the time during which ports of both schedules were in force until then. A cell without
  an entry was not run.
- All the while a client who may only read attacks each switch: connections that say nothing, a
  subscription, a costly query, long names, attributes and namespaces by the thousand, and locks,
  edits and commits that are refused, one request every two seconds. In each row each switch has
  answered requests of it.
- Networks of bridges have two more matrices, without attackers:
  `scripts/long fault-matrix-bridged`, where streams get other ways, and `fault-matrix-guarded`,
  where stream filters and the elimination of second copies come, change and go. There most steps
  are requests by which the agent reads filters.
  `--distinct` strikes one of those that follow each other directly, and takes the end of one
  change of the agent and the beginning of the next for one step: nothing has happened in between
  that outlives a process. What is left has every kind of step with every fault. A row there ends
  on one schedule, one forwarding and one state of filters and functions; of each frame
  of the streams that both schedules have one copy has come in the meantime, by the former way or
  by the new one.

"""


def main() -> int:
    """Exit status 0 if there are rows and every one is sound, else 1."""
    options = _parser().parse_args()
    rows = sorted(
        (row for part in options.parts for row in from_json(part.read_text())),
        key=lambda row: row.number,
    )
    options.json.write_text(to_json(rows))
    if options.table:
        options.table.write_text(f"{HEAD}{summary(rows)}\n\n{to_markdown(rows)}")
    print(summary(rows))
    return 0 if rows and all(row.is_sound for row in rows) else 1


def summary(rows: Sequence[Row]) -> str:
    """How many rows ended how."""
    unsound = [row for row in rows if not row.is_sound]
    chosen = [row for row in rows if row.recovery is not Recovery.NONE]
    longest_s = max((row.mixed_ns for row in rows), default=0) / NS_PER_S
    counts = ", ".join(
        f"{sum(row.is_sound and row.outcome == side for row in rows)} on the {side} schedule"
        for side in ("old", "new")
    )
    return (
        f"{len(rows)} rows: {counts}, {len(unsound)} not on one schedule. In {len(chosen)} an "
        f"operator had to choose; gates of both were in force in "
        f"{sum(row.mixed_ns > 0 for row in rows)}, for {longest_s:.1f} s at most."
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fault.collect", description=__doc__)
    parser.add_argument("parts", type=Path, nargs="+", metavar="PART")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--table", type=Path, metavar="FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())
