"""The control loops of a document, and whether they fit its streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cnc.keys.keys import Keys, Level
from cnc.keys.problems import KeyPath, Problems, one_of, shown
from cnc.keys.reach import FastestPaths
from cnc.keys.units import DURATION
from cnc.loops import model
from cnc.loops.keys import Controller, NetworkKeys, Plant
from cnc.loops.path_semantics import check_accepted, path_of
from cnc.model import Intent, Stream
from cnc.support.format import counted

if TYPE_CHECKING:
    from cnc.keys import shape


_PLANTS = ("order", "conveyor", "arm", "python")


def _read(document: shape.Document, problems: Problems) -> Iterator[model.Loops]:
    """The loops that are described; what is wrong with one by itself is added to `problems`."""
    found = {}
    for name, its in (document[NetworkKeys].loops or {}).items():
        path = ("loops", name)
        if its.duration_ns < its.period_ns:
            problems.add(
                (*path, "duration"),
                DURATION.format(its.duration_ns),
                f"at least {DURATION.format(its.period_ns)}, the period of the loop",
            )
        plant = _plant(its.plant, (*path, "plant"), problems)
        controller = _controller(its.controller, (*path, "controller"), problems)
        if isinstance(plant, model.PythonPlant) and isinstance(controller, model.PiController):
            _refuse_several_values(plant, path, problems)
        followed = path_of(its, plant, path, problems)
        check_accepted(its, path, problems)
        if plant is None or controller is None:
            continue
        accepted = None
        if its.accept is not None:
            accepted = model.Accepted(
                its.accept.rise_time_ns, its.accept.overshoot, its.accept.path_error
            )
        found[name] = model.Loop(
            name,
            sensor=its.sensor,
            actuator=its.actuator,
            period_ns=its.period_ns,
            compute_ns=its.compute_ns,
            deadline_ns=its.deadline_ns,
            plant=plant,
            controller=controller,
            reference=its.reference,
            duration_ns=its.duration_ns,
            steps=its.steps,
            accepted=accepted,
            path=followed,
        )
        if its.reference == 0 and its.path is None:
            problems.add(
                (*path, "reference"), "0", "another number: a step from 0 to it is watched"
            )
    yield model.Loops(found)


def _plant(its: Plant, path: KeyPath, problems: Problems) -> model.Plant | None:
    kinds = [key for key in _PLANTS if getattr(its, key) is not None]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none of order, conveyor, arm and python"
        problems.add(path, found, "one of the four")
        return None
    if its.python is None:
        for key in ("outputs", "commands"):
            if getattr(its, key) is not None:
                problems.add((*path, key), f"{key}, and {kinds[0]}", "a plant by python")
    if its.order is not None:
        return _of_order(its, path, problems)
    _refuse_keys_of_an_order(its, kinds[0], path, problems)
    if its.python is not None:
        return _own(its, its.python, path, problems)
    if its.conveyor is not None:
        return model.Conveyor(its.conveyor.speed, its.conveyor.time_constant_ns)
    assert its.arm is not None  # noqa: S101  it is one of the four
    return model.Arm(its.arm.links, its.arm.speed, its.arm.time_constant_ns)


def _own(its: Plant, function: str, path: KeyPath, problems: Problems) -> model.PythonPlant:
    own = model.PythonPlant(
        function, tuple(its.outputs or ("output",)), tuple(its.commands or ("command",))
    )
    for key, names in (("outputs", own.outputs), ("commands", own.commands)):
        for name in sorted({name for name in names if names.count(name) > 1}):
            problems.add((*path, key), f"{name} twice", "a name for each")
    return own


def _refuse_several_values(plant: model.PythonPlant, path: KeyPath, problems: Problems) -> None:
    if not plant.is_one_axis:
        outputs = counted(len(plant.outputs), "output")
        problems.add(
            (*path, "controller", "pi"),
            f"pi, and a plant with {outputs} and {counted(len(plant.commands), 'command')}",
            "a controller by python, which has them all",
        )


def _of_order(
    its: Plant, path: KeyPath, problems: Problems
) -> model.FirstOrder | model.SecondOrder | None:
    if its.time_constant_ns is None:
        expected = f"{Plant.model_fields['time_constant_ns'].description}"
        problems.add(path, "no time-constant", expected)
        return None
    if its.order == 1:
        if its.damping is not None:
            problems.add((*path, "damping"), f"{its.damping}, and order 1", "a plant of order 2")
        return model.FirstOrder(its.gain, its.time_constant_ns)
    if its.damping is None:
        problems.add(path, "order 2, and no damping", "the damping ratio of the plant")
        return None
    return model.SecondOrder(its.gain, its.time_constant_ns, its.damping)


def _refuse_keys_of_an_order(its: Plant, kind: str, path: KeyPath, problems: Problems) -> None:
    time_ns = its.time_constant_ns
    stated = {
        "gain": its.gain if "gain" in its.model_fields_set else None,
        "time-constant": None if time_ns is None else DURATION.format(time_ns),
        "damping": its.damping,
    }
    for key, value in stated.items():
        if value is not None:
            problems.add((*path, key), f"{value}, and {kind}", "a plant of order 1 or 2")


def _controller(
    its: Controller, path: KeyPath, problems: Problems
) -> model.PiController | model.PythonController | None:
    if (its.pi is None) == (its.python is None):
        found = "neither pi nor python" if its.pi is None else "pi and python"
        problems.add(path, found, "one of the two")
        return None
    if its.pi is not None:
        return model.PiController(its.pi.kp, its.pi.ki, its.pi.limit)
    return model.PythonController(its.python or "")


def _check(_document: shape.Document, intent: Intent, problems: Problems) -> None:
    """Add to `problems` loops that their streams do not close, or not in time."""
    owners: dict[str, str] = {}
    for loop in intent[model.Loops].by_name.values():
        streams = _streams(intent, loop, owners, problems)
        if streams is None:
            continue
        sensor, actuator = streams
        _check_ends(loop, sensor, actuator, problems)
        if problems.empty:  # else there may be no way to add up
            _check_deadline(intent, loop, sensor, actuator, problems)


def _streams(
    intent: Intent, loop: model.Loop, owners: dict[str, str], problems: Problems
) -> tuple[Stream, Stream] | None:
    """The two streams of a loop; None where one of them is not of the intent."""
    known = True
    for key, name in (("sensor", loop.sensor), ("actuator", loop.actuator)):
        path = ("loops", loop.name, key)
        stream = intent.streams.get(name)
        if stream is None:
            problems.add(path, shown(name), one_of(intent.streams, name))
            known = False
            continue
        owner = owners.setdefault(name, f"{loop.name}.{key}")
        if owner != f"{loop.name}.{key}":
            problems.add(path, f"{name}, which is {owner}", "a stream that no other loop has")
        if stream.frames > 1:
            problems.add(
                path,
                f"{name}, which sends {stream.frames} frames in each period",
                "a stream of one frame in each",
            )
        if stream.period_ns != loop.period_ns:
            problems.add(
                ("loops", loop.name, "period"),
                DURATION.format(loop.period_ns),
                f"{DURATION.format(stream.period_ns)}, the period of its stream {name}",
            )
    return (intent.streams[loop.sensor], intent.streams[loop.actuator]) if known else None


def _check_ends(loop: model.Loop, sensor: Stream, actuator: Stream, problems: Problems) -> None:
    """Each of the two streams leads to where the other one comes from."""
    for key, one, other in (("sensor", sensor, actuator), ("actuator", actuator, sensor)):
        if other.talker not in one.listeners:
            problems.add(
                ("loops", loop.name, key),
                f"{one.name}, which goes from {one.talker} to {', '.join(one.listeners)}",
                f"a stream to {other.talker}, where the stream {other.name} comes from",
            )


def _check_deadline(
    intent: Intent, loop: model.Loop, sensor: Stream, actuator: Stream, problems: Problems
) -> None:
    """What the two fastest ways and the computation take is a bound that no plan is below."""
    paths = FastestPaths(intent.network)
    there = paths.latency_ns(sensor, actuator.talker)
    back = paths.latency_ns(actuator, sensor.talker)
    if there is None or back is None:
        return
    least_ns = there + loop.compute_ns + back
    if loop.deadline_ns < least_ns:
        problems.add(
            ("loops", loop.name, "deadline"),
            DURATION.format(loop.deadline_ns),
            f"at least {DURATION.format(least_ns)}: {DURATION.format(there)} for {sensor.name}, "
            f"{DURATION.format(loop.compute_ns)} to compute and {DURATION.format(back)} for "
            f"{actuator.name}, when no other frame is in the way",
        )


KEYS = Keys({Level.NETWORK: NetworkKeys}, read=_read, check=_check)
