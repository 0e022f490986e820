"""The server's limits as they are where nobody configures any: the defaults of the YANG module."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import libyang

from agent.netconfd.limits import Limits

YANG = Path(__file__).parents[2] / "yang"
NACM = """module ietf-netconf-acm {
  namespace "n"; prefix nacm; extension default-deny-write; extension default-deny-all;
}"""


@cache
def server_module() -> libyang.Module:
    """The compiled module tsn-netconf-server."""
    context = libyang.Context(f"{YANG}:{YANG / 'standard'}")
    # sysrepo brings it along; of it, only the extensions are used.
    context.parse_module_str(NACM)
    return context.parse_module_file((YANG / "tsn-netconf-server.yang").open())


def default_container():
    """The container `limits` as RFC 7951 JSON."""
    tree = server_module().context.create_data_path("/tsn-netconf-server:netconf-server")
    tree.validate(no_state=True)
    text = tree.print_mem("json", with_siblings=True, include_implicit_defaults=True)
    return json.loads(text)["tsn-netconf-server:netconf-server"]["limits"]


@cache
def _defaults() -> Limits:
    return Limits.from_json(default_container())


def limits(**other) -> Limits:
    """The defaults, with others; those of penalties by their names, too."""
    default = _defaults()
    own = {name: other.pop(name) for name in [*other] if hasattr(default.penalties, name)}
    return replace(default, penalties=replace(default.penalties, **own), **other)
