"""The live page: the page of `cnc show --html`, and beside the plan what the service and the
switches do now.

    load        the plan and who is signed in, before anything is drawn
    watched     what is known of the switches, asked for again and again
    strip       whether everything is well, in one line
    live_lists  conditions, switches, notices, how each port is
    marks       what is wrong, in the picture of the network
    requests    what CUCs ask for, as it comes
    rollouts    the history, and what a rollout has changed
    counters    a stream's state, and what is counted on its way
    renewal     another plan: it is said, and loaded

Its scripts and those of `cnc.page` are one module, served by `cnc.service.web.page` with a policy
that lets nothing else run. All text from elsewhere reaches the document as text.
"""

from __future__ import annotations

import hashlib
from html import escape
from importlib.resources import files
from string import Template

from cnc import page

__all__ = ["login", "main", "script", "style", "version"]

_BEFORE = ("load.js",)
_AFTER = (
    "watched.js",
    "strip.js",
    "live_lists.js",
    "marks.js",
    "requests.js",
    "rollouts.js",
    "counters.js",
    "renewal.js",
    "live.js",
)


def main() -> str:
    """The document: the same for every plan and every reader."""
    rooms = {name: _file(f"{name}.html") for name in ("session", "strip", "tabs", "tables")}
    return page.framed(
        title="live",
        head=f'<link rel="stylesheet" href="/assets/page.css?{version()}">',
        scripts=f'<script type="module" src="/assets/page.js?{version()}"></script>',
        rooms=rooms,
    )


def login(trouble: str = "") -> str:
    """The form that takes a token; `trouble` says why it is there again."""
    return Template(_file("login.html")).substitute(trouble=escape(trouble), version=version())


def script() -> str:
    """One module: what is defined in one file is used in all of them."""
    return "\n".join(
        [*(_file(name) for name in _BEFORE), page.script(), *(_file(name) for name in _AFTER)]
    )


def style() -> str:
    return page.style() + _file("live.css")


def version() -> str:
    """Of script and style: others have another address."""
    return hashlib.sha256((script() + style()).encode()).hexdigest()[:16]


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
