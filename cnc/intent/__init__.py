"""What an operator writes about a network, as the model the other rooms work with.

Every message reads `FILE:LINE: PATH: found X, expected Y`, and all problems of a file are told at
once: first those of single values, then those of values that do not fit together.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cnc import collector
from cnc.errors import InputError
from cnc.intent import shape
from cnc.intent.meaning import understand
from cnc.intent.problems import LineMap, Problems
from cnc.intent.source import SIZE_MAX_OCTETS, parse
from cnc.intent.wording import explain
from cnc.model import Intent

__all__ = ["LineMap", "from_document", "json_schema", "load"]


@collector.paused()
def load(path: Path) -> Intent:
    """Read the intent file `path`. `InputError` holds one line for each problem found."""
    try:
        with path.open("rb") as file:
            text = file.read(SIZE_MAX_OCTETS + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot read it: {error.strerror}") from None
    return _understood(parse(text, str(path)))


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
        document = shape.Document.model_validate(problems.document)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            explain(detail, problems)
    problems.raise_if_any()
    return understand(document, problems)
