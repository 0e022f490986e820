"""The paths that loops follow, and whether their plants can."""

from __future__ import annotations

from cnc.keys.problems import KeyPath, Problems
from cnc.keys.units import DURATION
from cnc.loops import paths as model
from cnc.loops.keys import Loop, Path
from cnc.loops.model import Arm, Plant

_KINDS = ("ramp", "sine", "line", "circle")
_OF_AN_ARM = ("line", "circle")
_SAMPLES_A_TURN_MIN = 4  # with fewer, samples say nothing of what is between them
_ROUNDING_M = 1e-9  # so far beyond its reach is what an arm just reaches


def path_of(its: Loop, plant: Plant | None, at: KeyPath, problems: Problems) -> model.Path | None:
    """The path that the loop at `at` follows, if it follows one; what is wrong with it by itself,
    or beside other keys, is added to `problems`."""
    if its.path is None:
        if isinstance(plant, Arm):
            problems.add(at, "an arm, and no path", "a line or a circle for its tip")
        return None
    for key in ("reference", "steps"):
        if key in its.model_fields_set:
            problems.add((*at, key), f"{getattr(its, key)}, and a path", "one of the two")
    at = (*at, "path")
    kinds = [kind for kind in _KINDS if getattr(its.path, kind) is not None]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "no key"
        problems.add(at, found, f"one of {', '.join(_KINDS)}")
        return None
    _check_kind(kinds[0], plant, at, problems)
    made = _made(its.path, at, problems)
    if isinstance(made, model.Sine | model.Circle):
        _check_turns(made, its.period_ns, (*at, kinds[0]), problems)
    if isinstance(made, model.Line | model.Circle) and isinstance(plant, Arm):
        _check_reach(made, plant, (*at, kinds[0]), problems)
    return made


def _made(its: Path, at: KeyPath, problems: Problems) -> model.Path | None:
    if its.sine is not None:
        return model.Sine(its.sine.amplitude, its.sine.period_ns)
    if its.circle is not None:
        return model.Circle(its.circle.centre, its.circle.radius, its.circle.period_ns)
    if its.line is not None:
        if its.line.from_ == its.line.to:
            x, y = its.line.to
            problems.add((*at, "line", "to"), f"[{x}, {y}]", "another place than it begins at")
            return None
        return model.Line(its.line.from_, its.line.to)
    assert its.ramp is not None  # noqa: S101  it is one of the four
    if its.ramp == 0:
        problems.add((*at, "ramp"), "0", "another number: it leads from 0 to it")
    return model.Ramp(its.ramp)


def _check_kind(kind: str, plant: Plant | None, at: KeyPath, problems: Problems) -> None:
    """The tip of an arm has two coordinates, all other outputs are one number."""
    if plant is not None and (kind in _OF_AN_ARM) != isinstance(plant, Arm):
        if isinstance(plant, Arm):
            found, expected = "an arm", "a line or a circle"
        else:
            found, expected = "no arm", "a ramp or a sine"
        problems.add((*at, kind), f"a {kind}, and {found}", expected)


def _check_turns(
    path: model.Sine | model.Circle, period_ns: int, at: KeyPath, problems: Problems
) -> None:
    least_ns = _SAMPLES_A_TURN_MIN * period_ns
    if path.period_ns < least_ns:
        problems.add(
            (*at, "period"),
            DURATION.format(path.period_ns),
            f"at least {DURATION.format(least_ns)}, {_SAMPLES_A_TURN_MIN} periods of the loop",
        )


def _check_reach(
    path: model.Line | model.Circle, arm: Arm, at: KeyPath, problems: Problems
) -> None:
    (nearest, farthest), (least, most) = path.distances_m, arm.reach_m
    if farthest > most + _ROUNDING_M:
        problems.add(
            at,
            f"a place {farthest:.6g} m from the shoulder",
            f"at most {most:.6g} m, the reach of both links",
        )
    if nearest < least - _ROUNDING_M:
        problems.add(
            at,
            f"a place {nearest:.6g} m from the shoulder",
            f"at least {least:.6g} m, by which one link is longer than the other",
        )
    elif nearest < _ROUNDING_M:
        # Every angle of the shoulder would do there, and beside it each comes from another side.
        problems.add(at, "a place at the shoulder", "a path beside it")


def check_accepted(its: Loop, at: KeyPath, problems: Problems) -> None:
    """Add to `problems` what is accepted of a step where there is a path, and the other way
    round."""
    if its.accept is None:
        return
    of_steps = {"rise-time": its.accept.rise_time_ns, "overshoot": its.accept.overshoot}
    of_paths = {"path-error": its.accept.path_error}
    fit, other = (of_paths, of_steps) if its.path else (of_steps, of_paths)
    expected = "path-error" if its.path else "rise-time, overshoot or both"
    stated = {key: value for key, value in other.items() if value is not None}
    for key, value in stated.items():
        shown = DURATION.format(int(value)) if key == "rise-time" else value
        beside = "a path" if its.path else "no path"
        problems.add((*at, "accept", key), f"{shown}, and {beside}", expected)
    if not stated and all(value is None for value in fit.values()):
        problems.add((*at, "accept"), "no key", expected)
