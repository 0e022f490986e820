"""What a client asks to read, what sysrepo hands out for it, and how that is shown as XML.

Values equal to their default are shown as RFC 6243 names it: explicit (what was set), report-all,
report-all-tagged (all, those equal to the default marked) or trim (without those).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import libyang
import sysrepo
from _sysrepo import ffi, lib
from libyang.data import ffi as ly_ffi
from libyang.data import lib as ly_lib
from lxml import etree
from sysrepo.errors import check_call

from agent.netconfd.store.origins import NOT_BY_DEFAULT, OriginFilter

READ_TIMEOUT_MS = 5_000

NO_STATE = lib.SR_OPER_NO_STATE
NO_CONFIG = lib.SR_OPER_NO_CONFIG
# sysrepo_types.h, sr_get_oper_flag_t: the bindings do not know it.
WITH_ORIGIN = 0x10

BASIC_MODE = "explicit"
_MODES = {
    "explicit": ly_lib.LYD_PRINT_WD_EXPLICIT,
    "report-all": ly_lib.LYD_PRINT_WD_ALL,
    "report-all-tagged": ly_lib.LYD_PRINT_WD_ALL_TAG,
    "trim": ly_lib.LYD_PRINT_WD_TRIM,
}
DEFAULTS_MODES = tuple(_MODES)

# libyang marks a default with the annotation of the YANG module, RFC 6243 section 6 with this one.
_YANG_DEFAULT = "{urn:ietf:params:xml:ns:yang:ietf-netconf-with-defaults}default"
DEFAULT = "{urn:ietf:params:xml:ns:netconf:default:1.0}default"

# This server's own data, however large: a limit meant for strangers must not cut it.
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)


@dataclass(frozen=True)
class Selection:
    """What of a datastore to show, and how. `max_depth` 0 is unbounded, 1 the nodes alone.

    `config` is True for configuration only, False for state only.
    """

    filter_: etree._Element | None = None
    with_defaults: str = BASIC_MODE
    max_depth: int = 0
    config: bool | None = None
    origins: OriginFilter | None = None
    with_origin: bool = False

    def origin_filters(self) -> tuple[OriginFilter, ...]:
        """What decides on a value in use; one that is there by default only is not explicit."""
        explicit = (NOT_BY_DEFAULT,) if self.with_defaults == "explicit" else ()
        return explicit + ((self.origins,) if self.origins else ())


@contextmanager
def selected(
    session: sysrepo.SysrepoSession, xpath: str, *, max_depth: int = 0, options: int = 0
) -> Iterator[Any]:
    """The trees `xpath` selects in the session's datastore, None if there are none."""
    data = ffi.new("sr_data_t **")
    try:
        check_call(
            lib.sr_get_data,
            session.cdata,
            xpath.encode(),
            max_depth,
            READ_TIMEOUT_MS,
            options,
            data,
        )
    except sysrepo.SysrepoNotFoundError:
        yield None
        return
    if not data[0]:
        yield None
        return
    try:
        # sysrepo's data holds the context it belongs to.
        with session.get_ly_ctx() as context:
            tree = data[0].tree
            yield libyang.DNode.new(context, tree) if tree else None
    finally:
        lib.sr_release_data(data[0])


def to_xml(tree: Any, with_defaults: str, *, empty_containers: bool = False) -> str:
    """The tree and its siblings in one of `DEFAULTS_MODES`."""
    if tree is None:
        return ""
    flags = (
        ly_lib.LYD_PRINT_WITHSIBLINGS
        | ly_lib.LYD_PRINT_SHRINK
        | _MODES[with_defaults]
        | (ly_lib.LYD_PRINT_KEEPEMPTYCONT if empty_containers else 0)
    )
    text = ly_ffi.new("char **")
    if ly_lib.lyd_print_mem(text, tree.cdata, ly_lib.LYD_XML, flags):
        raise tree.context.error("cannot print the data")
    try:
        return bytes(ly_ffi.string(text[0])).decode() if text[0] else ""
    finally:
        ly_lib.free(text[0])


def element_of(xml: str, with_defaults: str, namespace: str) -> etree._Element:
    """The trees as the content of a <data> of this namespace."""
    data = etree.fromstring(f'<data xmlns="{namespace}">{xml}</data>', _PARSER)
    if with_defaults == "report-all-tagged":
        for leaf in data.iter():
            if _YANG_DEFAULT in leaf.attrib:
                leaf.set(DEFAULT, leaf.attrib.pop(_YANG_DEFAULT))
    return data
