"""The JSON Schema of the intent file as operators write it, for editors to complete and check.

`shape` describes streams as they are when templates and repetitions are written out. Before that a
stream may leave to its template what it needs, and a value may be a placeholder.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from cnc.keys.shape import Document

_Schema = dict[str, Any]

_PLACEHOLDER = r"\{[A-Za-z][A-Za-z0-9_-]{0,62}\}"
_OF_ENTRIES = ("template", "for")  # keys that say what a stream stands for


def json_schema() -> _Schema:
    """The JSON Schema of an intent document."""
    schema = Document.model_json_schema()
    stream = schema["$defs"]["Stream"]
    template = deepcopy(stream)
    for key in _OF_ENTRIES:
        del template["properties"][key]
    del template["required"]
    template |= {"description": "Keys that streams have in common.", "title": "Template"}
    # A stream that states a template may leave any key to it.
    stream["anyOf"] = [{"required": stream.pop("required")}, {"required": ["template"]}]
    for shape in (stream, template):
        for key, its in shape["properties"].items():
            if key not in _OF_ENTRIES:
                _allow_placeholders(its)
    schema["$defs"]["Template"] = template
    _refer(schema["properties"]["templates"], "#/$defs/Template")
    streams = schema["properties"]["streams"]
    streams["patternProperties"][_PLACEHOLDER] = {"$ref": "#/$defs/Stream"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "Intent of a time-sensitive network",
    }


def _allow_placeholders(leaf: _Schema) -> None:
    """Let a text have placeholders in it, and a number be one."""
    if "pattern" in leaf:
        leaf["pattern"] += f"|{_PLACEHOLDER}"
    elif leaf.get("type") == "integer":
        number = {key: leaf.pop(key) for key in ("type", "minimum", "maximum") if key in leaf}
        leaf["anyOf"] = [number, {"type": "string", "pattern": f"^{_PLACEHOLDER}$"}]
    elif leaf.get("type") == "array":
        _allow_placeholders(leaf["items"])
    else:
        for choice in leaf.get("anyOf", ()):
            _allow_placeholders(choice)


def _refer(leaf: _Schema, target: str) -> None:
    for choice in leaf["anyOf"]:
        for pattern in choice.get("patternProperties", ()):
            choice["patternProperties"][pattern] = {"$ref": target}
