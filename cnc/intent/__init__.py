"""What an operator writes about a network, as the model the other rooms work with.

Every message reads `FILE:LINE: PATH: found X, expected Y`, and all problems of a file are told at
once: first those of single values, then those of values that do not fit together.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from cnc import collector, whole_file
from cnc.errors import InputError
from cnc.intent import shape
from cnc.intent.meaning import understand
from cnc.intent.problems import LineMap, Problems
from cnc.intent.source import SIZE_MAX_OCTETS, parse
from cnc.intent.wording import explain
from cnc.model import Intent

__all__ = ["LineMap", "from_document", "json_schema", "load", "read", "shaped"]

_Shaped = TypeVar("_Shaped", bound=shape.Shape)


@collector.paused()
def load(path: Path) -> Intent:
    """Read the intent file `path`. `InputError` holds one line for each problem found."""
    return _understood(read(path))


def read(path: Path) -> Problems:
    """The YAML file `path` as plain data, with the lines and what is wrong with its text."""
    try:
        whole_file.refuse_special(path)
        with path.open("rb") as file:
            text = file.read(SIZE_MAX_OCTETS + 1)
    except OSError as error:
        raise InputError(
            f"{path}: cannot read it: {error.strerror}",
            hint="check the path and its permissions",
        ) from None
    return parse(text, str(path))


def shaped(problems: Problems, model: type[_Shaped]) -> _Shaped:
    """The document as a `model`; `InputError` holds one line for each problem found.

    For every file that operators write, the intent and others: one wording of what is wrong.
    """
    try:
        document = model.model_validate(problems.document)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            explain(detail, model, problems)
        problems.raise_if_any()
        raise
    problems.raise_if_any()
    return document


@collector.paused()
def from_document(document: Mapping[str, Any], source: str, lines: LineMap | None = None) -> Intent:
    """The intent that plain data describes; `source` and `lines` place its problems."""
    return _understood(Problems(source, lines or {}, document))


def json_schema() -> dict[str, Any]:
    """The JSON Schema of an intent document, for editors to complete and check."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **shape.Document.model_json_schema(),
        "title": "Intent of a time-sensitive network",
    }


def _understood(problems: Problems) -> Intent:
    try:
        return understand(shaped(problems, shape.Document), problems)
    except InputError as error:
        error.hint = error.hint or "`cnc init` writes an example that explains every key"
        raise
