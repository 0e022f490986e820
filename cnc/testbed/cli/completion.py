"""What shells offer in the place of a lab's name, or of a node's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cnc.support.lazy import lazy_import

if TYPE_CHECKING:
    from cnc.testbed import lab as emulator
else:
    emulator = lazy_import("cnc.testbed.lab")


def labs(_context: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The labs that are up."""
    return [name for name in emulator.lifecycle.names() if name.startswith(incomplete)]


def nodes(context: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The nodes of the lab that is up, or of the one named before; and the labs' names."""
    up, words = emulator.lifecycle.names(), context.params.get("words") or ()
    named = [word for word in words[:1] if word in up]
    if len(words) > len(named):
        return []  # the node is there, what follows is a command
    chosen = named or up
    its = [n.node for n in emulator.lifecycle.status(chosen[0])] if len(chosen) == 1 else []
    return [name for name in [*its, *([] if named else up)] if name.startswith(incomplete)]
