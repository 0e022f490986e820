"""Translates pydantic's errors about the shape of a document into messages for operators."""

from __future__ import annotations

from typing import Any, get_args, get_origin

from pydantic_core import ErrorDetails

from cnc import laboratory
from cnc.keys.mapping import Shape, fields_of
from cnc.keys.problems import KeyPath, Problems, one_of, shown
from cnc.support.format import counted

_EXPECTED = {
    "dict_type": "a mapping from names",
    "invalid_key": "text as a key",
    "list_type": "a list",
}


# Nobody knows here which keys they are.
_OF_LABS = (
    ""
    if laboratory.registration()
    else f"; those of labs need {laboratory.DISTRIBUTION}, which is not installed"
)


def describe_error(detail: ErrorDetails, model: type[Shape], problems: Problems) -> None:
    """Add one of the errors that pydantic found in a document of shape `model` to `problems`."""
    path, found, context = detail["loc"], shown(detail["input"]), detail.get("ctx", {})
    match detail["type"]:
        case "value_error":
            expected = str(context["error"])
            if path and path[-1] == "[key]":  # the name itself is wrong, not what it stands for
                path = path[:-1]
        case "missing" if isinstance(path[-1], int):  # of a list of so many values
            found, expected = counted(len(detail["input"]), "value"), f"at least {path[-1] + 1}"
            path = path[:-1]
        case "missing":
            expected = _keys_at(model, path[:-1])[str(path[-1])]
            path, found = path[:-1], f"no {path[-1]}"
        case "extra_forbidden":
            found = f"the unknown key {shown(path[-1])}"
            expected = one_of(_keys_at(model, path[:-1]), str(path[-1])) + _OF_LABS
        # What pydantic counts are the values that are right; each of the others has its own error.
        case "too_short" if len(detail["input"]) >= context["min_length"]:
            return
        case "too_short":
            found, expected = (
                counted(context["actual_length"], "value"),
                f"at least {context['min_length']}",
            )
        case "too_long":
            found, expected = (
                counted(context["actual_length"], "value"),
                f"at most {context['max_length']}",
            )
        case "model_type":
            expected = f"a mapping with {', '.join(_keys_at(model, path))}"
        case _:
            expected = _EXPECTED.get(detail["type"], detail["msg"])
    problems.add(path, found, expected)


def _keys_at(model: type[Shape], path: KeyPath) -> dict[str, str]:
    """The keys that belong at `path` of a `model`, each with its description."""
    steps = iter(path)
    for step in steps:
        annotation = next(f.annotation for f in model.model_fields.values() if step == f.alias)
        if {get_origin(each) for each in (annotation, *get_args(annotation))} & {dict, list}:
            next(steps, None)  # a name or an index; the whole may be left out
        model = _shape_in(annotation) or model
    return {str(f.alias): str(f.description) for f in fields_of(model)}


def _shape_in(annotation: Any) -> type[Shape] | None:
    if isinstance(annotation, type) and issubclass(annotation, Shape):
        return annotation
    return next(filter(None, map(_shape_in, get_args(annotation))), None)
