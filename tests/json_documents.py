"""What `cnc ... --json` prints, held to the schema that users are given."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[1] / "docs/reference/json"

# It has figures of each experiment's own.
OPEN = {"lab-measure"}


def documented(words: str, text: str) -> Any:
    """The JSON `text` that the command printed: it has what its schema says, and nothing else."""
    document = json.loads(text)
    _validator(words.replace(" ", "-")).validate(document)
    return document


@cache
def _validator(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    if name not in OPEN:
        _close(schema)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def _close(schema: Any) -> None:
    """Let no object have more than is documented."""
    if isinstance(schema, dict):
        if "properties" in schema:
            schema["additionalProperties"] = False
        for part in schema.values():
            _close(part)
    elif isinstance(schema, list):
        for part in schema:
            _close(part)
