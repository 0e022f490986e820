"""Reads an intent file into the model of the other rooms.

Every message reads `FILE:LINE: PATH: found X, expected Y`, and all problems of a file are reported
at once: first those of single values, then those of inconsistent values.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from cnc.errors import InputError
from cnc.intent.errors import describe_error
from cnc.intent.source import SIZE_MAX_OCTETS, parse
from cnc.intent.templates import expand
from cnc.keys.mapping import Shape
from cnc.keys.problems import LineMap, Problems
from cnc.model import Intent
from cnc.support import gc_pause, whole_file
from cnc.support.lazy import lazy_import

# Mechanisms import other modules of this room for their keys, which these three consist of.
if TYPE_CHECKING:
    from cnc.intent import profiles, schema, semantics
    from cnc.keys import shape
else:
    profiles, schema, semantics, shape = (
        lazy_import(f"cnc.{name}")
        for name in ("intent.profiles", "intent.schema", "intent.semantics", "keys.shape")
    )

__all__ = [
    "LineMap",
    "from_document",
    "intent_of",
    "json_schema",
    "load",
    "read",
    "validate",
]

_Model = TypeVar("_Model", bound=Shape)


@gc_pause.paused()
def load(path: Path, *, best_effort: bool = False) -> Intent:
    """Read the intent file `path`. `InputError` holds one line for each problem found.

    `best_effort`: streams that the network cannot carry by their figures alone are no problem: its
    plan may leave them out, and says why.
    """
    return intent_of(read(path), best_effort=best_effort)


def read(path: Path) -> Problems:
    """The YAML file `path` as plain data, with line numbers and the problems of its text; device
    profiles that are files beside it are part of it."""
    try:
        whole_file.refuse_special(path)
        with path.open("rb") as file:
            text = file.read(SIZE_MAX_OCTETS + 1)
    except OSError as error:
        raise InputError(
            f"{path}: cannot read it: {error.strerror}",
            hint="check the path and its permissions",
        ) from None
    return profiles.with_own_profiles(parse(text, str(path)), path, read, validate)


def validate(problems: Problems, model: type[_Model]) -> _Model:
    """The document as a `model`; `InputError` holds one line for each problem found.

    Used for every file that operators write, so that all errors have the same form.
    """
    try:
        document = model.model_validate(problems.document)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            describe_error(detail, model, problems)
        problems.raise_if_any()
        raise
    problems.raise_if_any()
    return document


@gc_pause.paused()
def from_document(
    document: Mapping[str, Any],
    source: str,
    lines: LineMap | None = None,
    *,
    of_plan: bool = False,
    best_effort: bool = False,
) -> Intent:
    """The intent that plain data describes; `source` and `lines` place its problems.

    `of_plan`: it is that of a plan made before, which may ask for what is not planned any more, and
    may leave out streams that the network cannot carry; the judge tells of that. `best_effort`: as
    for `load`.
    """
    problems = Problems(source, lines or {}, document)
    return intent_of(problems, of_plan=of_plan, best_effort=best_effort)


def intent_of(problems: Problems, *, of_plan: bool = False, best_effort: bool = False) -> Intent:
    """The intent that a document holds which was `read`; see `load` and `from_document`."""
    try:
        written_out = expand(problems)
        document = validate(written_out, shape.Document)
    except InputError as error:
        if ": (document): " in str(error):  # any other line says what is expected at its place
            error.hint = error.hint or "`cnc init` writes an example that explains every key"
        raise
    return semantics.build(document, written_out, of_plan=of_plan, best_effort=best_effort)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of an intent document as operators write it."""
    return schema.json_schema()
