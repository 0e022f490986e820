"""Labels of streams on a switch: the least that a mechanism can be.

A file for each bridge stands for a kernel object: it is replaced as a whole and read back, and
other mechanisms contribute lines to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from agent.composition import Change, Contribution, KernelObject, Stage
from agent.mechanism import BRIDGE, KernelAdapter, Mechanism, MemoryAdapter
from agent.model import PortConfig, PortState

YANG = Path(__file__).with_name("toy-label.yang")
NODE = "toy-label:label"

Lines = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LabelFile(KernelObject):
    """The file of a bridge. Contents are lines, which begin with the place of their mechanism."""

    removed_in: ClassVar[Stage] = Stage.CLASSIFY
    set_in: ClassVar[Stage] = Stage.FORWARD

    @property
    def path(self) -> Path:
        prefix = os.environ["SYSREPO_SHM_PREFIX"]  # one file for each agent
        return Path(os.environ["TMPDIR"], f"{prefix}{self.port}.labels")

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []


@dataclass(frozen=True, slots=True)
class Part:
    """The lines of a mechanism; of the configuration and of the state."""

    lines: Lines = ()


class FileAdapter(KernelAdapter):
    """Reads the lines of one mechanism, and replaces the file for all."""

    def __init__(self, kind: type[Part], place: int) -> None:
        self._kind, self._place = kind, place
        self.objects = {LabelFile: self._replace}

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        return {name: as_read(its, self._kind, self._place) for name, its in states.items()}

    @staticmethod
    def _replace(target: Any, _before: object, after: Sequence[Contribution]) -> None:
        target.path.write_text(
            "".join(f"{each.place} {line}\n" for each in after for line in each.content)
        )


def as_read(state: PortState, kind: type[Part], place: int) -> PortState:
    """The state with the lines that the file has at this place."""
    found = LabelFile(state.name).lines()
    return state.with_part(kind(tuple(its[2:] for its in found if its.startswith(f"{place} "))))


def mechanism(
    name: str, kind: type[Part], place: int, configured: Any, operational: Any
) -> Mechanism:
    """One whose part are lines of the file."""

    def contributed(state: PortState, lines: Lines) -> tuple[Contribution, ...]:
        return (Contribution(name, state.name, place, lines),) if lines else ()

    def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
        before, after = state[kind].lines, config[kind].lines
        if before != after:
            yield Change(
                port=state.name,
                target=LabelFile(state.name, state.ifindex),
                before=contributed(state, before),
                after=contributed(state, after),
                description=f"port {state.name}: {name}: {', '.join(after) or 'none'}",
                difference=f"{name}: {', '.join(before) or 'none'}",
            )

    def applied(state: PortState, contents: Sequence[Lines], _now_ns: object) -> PortState:
        file = LabelFile(state.name)
        others = [line for line in file.lines() if not line.startswith(f"{place} ")]
        own = [f"{place} {line}" for lines in contents for line in lines]
        file.path.write_text("".join(f"{line}\n" for line in sorted([*others, *own])))
        return state.with_part(kind(*contents))

    return Mechanism(
        name=name,
        subtrees=(BRIDGE,),
        configured=lambda interface, _state: kind(
            tuple(
                line
                for each in interface.get(BRIDGE, {}).get("component", [])
                for line in configured(each)
            )
        ),
        as_is=lambda state: state[kind],
        contributions=lambda state: [
            (LabelFile(state.name, state.ifindex), its)
            for its in contributed(state, state[kind].lines)
        ],
        diff=diff,
        problems=lambda _config, _state: (),
        operational=lambda _state, _context: {},
        memory=MemoryAdapter(applied, lambda state, _now_ns: as_read(state, kind, place)),
        kernel=lambda _ipr: FileAdapter(kind, place),
        operational_of_bridge=lambda state: operational(state[kind].lines),
    )


@dataclass(frozen=True, slots=True)
class Labels(Part):
    """A label of a stream a line: destination address, VLAN, text."""


def _configured(component: Mapping[str, Any]) -> Lines:
    rows = component.get(NODE, [])
    return tuple(sorted(f"{row['destination']} {row['vlan']} {row['text']}" for row in rows))


def _operational(lines: Lines) -> dict[str, Any]:
    split = (line.split(" ", 2) for line in lines)
    rows = [{"destination": mac, "vlan": int(vlan), "text": text} for mac, vlan, text in split]
    return {NODE: rows} if rows else {}


MECHANISM = mechanism("label", Labels, 0, _configured, _operational)
