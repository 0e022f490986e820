"""Text as part of an XPath expression."""

from __future__ import annotations


def literal(text: str) -> str:
    """The text as an XPath string; XPath has no escapes."""
    if "'" not in text:
        return f"'{text}'"
    if '"' not in text:
        return f'"{text}"'
    pieces = text.replace("'", """', "'", '""")
    return f"concat('{pieces}')"
