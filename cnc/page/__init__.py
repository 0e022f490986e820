"""A plan as one HTML file to look around in, with no network and nothing beside it.

`page.html` is the frame, `page.css` the looks; the scripts do the rest in the browser from the
data that `data.page_data` gives them. Content of a plan reaches the document as text only: the data
lie in a block that is not executable, and the policy in the page's head lets exactly our own style
and script run, by their hashes. `cnc.service.page` serves the same frame, style and scripts.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from cnc.model import Plan
from cnc.page.data import page_data
from cnc.support.gc_pause import paused

__all__ = ["framed", "html", "script", "style"]

# One script in the end. What is defined in one file is used in those below it only when they run.
_SCRIPTS = (
    "common.js",
    "topology.js",
    "table.js",
    "details.js",
    "drawing.js",
    "timeline.js",
    "page.js",
)
# Where more has its place than a file has: who is signed in, what is wrong, further lists.
_ROOMS = ("session", "strip", "tabs", "tables")


@paused()
def html(plan: Plan) -> str:
    """The page as text; the same for the same plan."""
    looks = "\n" + style()
    code = "\n" + _file("embedded.js") + "\n" + script()
    policy = (
        f"default-src 'none'; script-src {_hash(code)}; style-src {_hash(looks)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return framed(
        title=plan.intent.name,
        head=f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<style>{looks}</style>",
        scripts=f'<script type="application/json" id="plan">{_inert(page_data(plan))}</script>\n'
        f"<script>{code}</script>",
    )


def framed(*, title: str, head: str, scripts: str, rooms: Mapping[str, str] | None = None) -> str:
    """The document: `title` is text, all else markup; `rooms` is what a served page has more."""
    more = dict.fromkeys(_ROOMS, "") | dict(rooms or {})
    return Template(_file("page.html")).substitute(
        title=escape(title), head=head, scripts=scripts, **more
    )


def script() -> str:
    """What shows a plan; another script, before it, says which: `plan` is `data.page_data`."""
    return "\n".join(_file(name) for name in _SCRIPTS)


def style() -> str:
    return _file("page.css")


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(source: str) -> str:
    """How a content security policy names an inline style or script."""
    digest = hashlib.sha256(source.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _inert(data: dict[str, Any]) -> str:
    """JSON that no HTML parser finds a tag or a comment in."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
