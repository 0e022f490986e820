"""Prints the Mininet topology that a Python file defines, as JSON: run by `lab.mininet`.

    /usr/bin/python3 -I mininet_reader.py FILE [NAME[,ARG,KEY=VALUE...]]

A program of its own, because Mininet is installed for the system's Python and because the file's
code is not trusted. It imports nothing of cnc. The output is one object: `nodes` (name, switch,
options) and `links` (ends as [node, port number], options), in Mininet's order; or `error` and
`hint`.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODULE = "custom"  # not "__main__": only the definitions of a script are needed


class Refused(Exception):
    """Arguments: what happened, and what to do next."""


def main() -> None:
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the file's own output goes to standard error
    try:
        reply = _topology(*sys.argv[1:])
    except Refused as refused:
        error, hint = refused.args
        reply = {"error": error, "hint": hint}
    with output:
        json.dump(reply, output)


def _topology(file: str, chosen: str | None = None) -> dict[str, Any]:
    try:
        from mininet.net import Mininet  # type: ignore[import-not-found] # noqa: PLC0415
        from mininet.topo import Topo  # type: ignore[import-not-found] # noqa: PLC0415
        from mininet.util import splitArgs  # type: ignore[import-not-found] # noqa: PLC0415
    except ImportError as error:
        raise Refused(
            f"{file}: cannot read a Mininet topology without Mininet ({error})",
            "apt install mininet; its Open vSwitch and a controller are not needed",
        ) from None
    Mininet.__init__ = _refuse_network  # before the file's code can start one, with root's rights
    sys.path.insert(0, str(Path(file).resolve().parent))  # modules beside it, as for a script
    names = _of_user(
        file,
        lambda: runpy.run_path(file, run_name=MODULE),
        f"the file is run by {sys.executable}, without cnc's own packages",
    )
    choices = _choices(names, Topo)
    name, arguments, options = splitArgs(chosen) if chosen else (_only(file, choices), [], {})
    if name not in choices:
        raise Refused(f"{file}: no topology {name}", _those(choices))
    topology = choices[name]
    if not isinstance(topology, Topo):
        make = topology
        arguing = f"arguments are given with --topo: {name},ARG,KEY=VALUE"
        topology = _of_user(file, lambda: make(*arguments, **options), arguing)
    elif arguments or options:
        raise Refused(
            f"{file}: {name} is an object already and takes no arguments", "leave them out"
        )
    if not isinstance(topology, Topo):
        raise Refused(f"{file}: {name} returned a {type(topology).__name__}", "a Topo is needed")
    return _read(topology)


def _refuse_network(*_: Any, **__: Any) -> None:
    """In place of the constructor of a Mininet network."""
    raise Refused(
        "it builds a Mininet network itself, which was not started",
        "write its nodes and links into a class derived from mininet.topo.Topo; what starts the "
        "network belongs below `if __name__ == '__main__':`",
    )


def _choices(names: dict[str, Any], base: type) -> dict[str, Any]:
    """The topologies to choose from: the file's `topos`, else its Topo objects, else its
    classes."""
    objects = {name: value for name, value in names.items() if isinstance(value, base)}
    classes = {
        name: value
        for name, value in names.items()
        if isinstance(value, type) and issubclass(value, base) and value.__module__ == MODULE
    }
    topos = names.get("topos")
    return dict(topos) if isinstance(topos, dict) and topos else objects or classes


def _only(file: str, choices: dict[str, Any]) -> str:
    if len(choices) == 1:
        return next(iter(choices))
    if choices:
        raise Refused(f"{file}: it defines several topologies", _those(choices))
    raise Refused(
        f"{file}: it defines no Mininet topology",
        "a class derived from mininet.topo.Topo is needed, or a script that adds nodes to a "
        "`Mininet()`",
    )


def _those(choices: dict[str, Any]) -> str:
    return f"choose with --topo: {', '.join(map(str, choices))}" if choices else "it defines none"


def _of_user(file: str, action: Callable[[], Any], hint: str) -> Any:
    """The result of `action`, which runs the file's code; an error is reported with its line."""
    try:
        return action()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - that code may raise anything
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == file]
        if isinstance(error, SyntaxError) and error.filename == file:
            lines.append(error.lineno)
        where = f"{file}:{lines[-1]}" if lines else file
        if isinstance(error, Refused):
            what, hint = error.args
            raise Refused(f"{where}: {what}", hint) from None
        what = traceback.format_exception_only(error)[-1].strip()
        raise Refused(f"{where}: {what}", hint) from None


def _read(topology: Any) -> dict[str, Any]:
    switches = set(topology.switches())
    return {
        "nodes": [
            {
                "name": str(name),
                "switch": name in switches,
                "options": _plain(topology.nodeInfo(name), {"isSwitch"}),
            }
            for name in (*topology.switches(), *topology.hosts())
        ],
        "links": [
            {
                "ends": [[str(info[f"node{end}"]), info[f"port{end}"]] for end in (1, 2)],
                "options": _plain(info, {"node1", "node2", "port1", "port2"}),
            }
            for _, _, info in topology.links(sort=True, withInfo=True)
        ],
    }


def _plain(options: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """The options that are set, as JSON values: a class by its name, other objects as text."""
    return {
        name: value
        if isinstance(value, (bool, int, float, str))
        else getattr(value, "__name__", repr(value))
        for name, value in options.items()
        if name not in known and value is not None
    }


if __name__ == "__main__":
    main()
