"""Plants and controllers of the operator's own, from modules beside the intent file.

The program of an end station imports it: the standard library only.
"""

from __future__ import annotations

import importlib
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

Numbers = float | Sequence[float]
"""One number as it is, several as a sequence."""


class Plant(Protocol):
    """What a function of the operator's returns as a plant."""

    output: Numbers

    def advance(self, duration_ns: int, command: Any) -> None:
        """Let the time pass with this command at the input."""


def made_by(function: str, directory: str) -> Callable[..., Any]:
    """The function that `module:function` names, its module from a directory or installed.

    Raises SystemExit if there is none; what the module itself raises is left as it is.
    """
    if directory not in sys.path:
        sys.path.insert(0, directory)
    module, _, name = function.partition(":")
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        sys.exit(f"{function}: neither {directory} nor what is installed has a module {error.name}")
    try:
        found: Callable[..., Any] = operator.attrgetter(name)(imported)
    except AttributeError:
        sys.exit(f"{function}: {imported.__file__} has no {name}")
    return found


class OwnPlant:
    """A plant that a loop has whole: a number for each output, and one for each command."""

    def __init__(self, its: Mapping[str, Any], directory: str) -> None:
        self._its = its
        self._plant: Plant = made_by(its["function"], directory)()

    @property
    def outputs(self) -> tuple[float, ...]:
        """Raises SystemExit if they are not as many as the intent names."""
        return _as_many(self._plant.output, self._its, "outputs")

    def advance(self, duration_ns: int, commands: Sequence[float]) -> None:
        """Let the time pass with these commands at the inputs."""
        self._plant.advance(duration_ns, _shown(commands))


class OwnController:
    """A controller of all outputs of a plant at once; called once a period."""

    def __init__(self, its: Mapping[str, Any], period_s: float, directory: str) -> None:
        self._its = its
        self._step = made_by(its["function"], directory)(period_s)

    def __call__(self, references: Sequence[float], samples: Sequence[float]) -> tuple[float, ...]:
        answer = self._step(_shown(references), _shown(samples))
        return _as_many(answer, self._its, "commands")


def _shown(numbers: Sequence[float]) -> Numbers:
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def _as_many(numbers: Numbers, its: Mapping[str, Any], key: str) -> tuple[float, ...]:
    several = numbers if isinstance(numbers, Sequence) else (numbers,)
    if len(several) != len(its[key]):
        expected = f"{len(its[key])}: {', '.join(its[key])}"
        sys.exit(f"{its['function']}: {key}: found {len(several)} numbers, expected {expected}")
    return tuple(map(float, several))
