"""What a document says of classes with a shaper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cnc.keys.keys import Keys
from cnc.keys.problems import KeyPath, Problems
from cnc.keys.shaping import By, Shaping
from cnc.mechanisms.cbs.beside import obstacle
from cnc.mechanisms.without_instants import refuse_instants
from cnc.model import ClassRole, Forwarding, GateMode, Intent, Shaper, Stream

if TYPE_CHECKING:
    from cnc.keys import shape


def _shaped(document: shape.Document) -> Iterator[tuple[str, Shaping]]:
    for name, its in document.classes.items():
        if its.shaping is not None and not its.shaping.is_cyclic:
            yield name, its.shaping


def _path(name: str, *keys: str) -> KeyPath:
    return ("classes", name, "shaping", *keys)


def _check(document: shape.Document, intent: Intent, problems: Problems) -> None:
    """Add to `problems` what does not go together with a shaper."""
    for name, its in document.classes.items():
        if its.shaping and its.shaping.idle_slope_bps is not None and its.shaping.by is not By.CBS:
            found = f"an idle-slope, and {its.shaping.by}"
            problems.add(_path(name, "idle-slope"), found, "a class with shaping: cbs")
    for name, stated in _shaped(document):
        for key, value in (("cycle", stated.cycle_ns), ("share", stated.share_ppb)):
            if value is not None:
                problems.add(_path(name, key), f"a {key}, and {stated.by}", "shaping: cqf")
        _check_class(document, intent, name, problems)
    if shaped := intent.shaped_classes():
        _check_network(document, intent, problems)
    for stream in intent.streams.values() if shaped else ():
        _check_stream(intent, stream, problems)


def _check_network(document: shape.Document, intent: Intent, problems: Problems) -> None:
    """What other classes and the switches have to be where some class has a shaper."""
    shaped = intent.shaped_classes()
    if intent.network.forwarding is Forwarding.ROUTED:
        for name, stated in _shaped(document):
            path = _path(name)
            problems.refuse_routed([(path, stated.by)], "no switch shapes by it")
    if any(its.shaper is Shaper.CREDIT for its in shaped):
        _check_switches(intent, problems)
    for each in intent.unreserved_classes():
        for above in shaped:
            if each.number > above.number:
                problems.add(
                    ("classes", each.name, "traffic-class"),
                    f"{each.number}, above class {above.name}, whose streams have a bound",
                    f"less than {above.number}: any number of its frames may come",
                )


def _check_switches(intent: Intent, problems: Problems) -> None:
    for name, its in intent.network.bridges.items():
        if intent.network.profile(name) is not None:
            problems.add(
                ("switches", name, "profile"),
                "a profile, and a class with shaping: cbs",
                "a switch with the agent: no profile says how others take idle slopes",
            )
        if its.gate_mode is not GateMode.SOFTWARE:
            problems.add(
                ("switches", name, "gates"),
                f"{its.gate_mode}, and a class with shaping: cbs",
                "gates: software: credit of the kernel is below gates of the kernel alone",
            )


def _check_class(document: shape.Document, intent: Intent, name: str, problems: Problems) -> None:
    its, stated = intent.classes[name], document.classes[name]
    by = its.shaper or ""
    if its.role is not ClassRole.BEST_EFFORT:
        found = f"{by}, and the role {its.role}"
        expected = "a class with the role best-effort: its gate is open wherever nothing is planned"
        problems.add(_path(name), found, expected)
    for key, value in [("priority", its.priority), *(("dscp", dscp) for dscp in its.dscps)]:
        if value == 0:
            found = "0, which every unmarked frame has"
            problems.add(("classes", name, key), found, f"another value for a class with {by}")
    if stated.windows is not None:
        problems.add(("classes", name, "windows"), "windows, and shaping", "one of both")


def _check_stream(intent: Intent, stream: Stream, problems: Problems) -> None:
    path: KeyPath = ("streams", stream.name)
    known = {
        name: intent.classes[name] for name in stream.traffic_classes if name in intent.classes
    }
    shaped = [name for name, its in known.items() if its.shaper]
    if not shaped:
        if why := obstacle(intent, stream):
            problems.add(path, why.found, why.expected)
        return
    name = shaped[0]
    refuse_instants(intent, stream, name, str(intent.classes[name].shaper), problems)


KEYS = Keys({}, check=_check)
