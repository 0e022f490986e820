"""What a client selects to read, and the <data> element of the reply.

Values equal to their default are shown as RFC 6243 names it: explicit (what was set), report-all,
report-all-tagged (all, those equal to the default marked) or trim (without those).
"""

from __future__ import annotations

from dataclasses import dataclass

from lxml import etree

from agent.netconfd.capabilities import BASIC_MODE
from agent.netconfd.session.origins import NOT_BY_DEFAULT, OriginFilter

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


def default_mode(datastore: str) -> str:
    """How a datastore shows values equal to their default where the client does not choose."""
    # Operational shows every value in use.
    return "report-all" if datastore == "operational" else BASIC_MODE


def element_of(xml: str, with_defaults: str, namespace: str) -> etree._Element:
    """The trees as the content of a <data> of this namespace."""
    data = etree.fromstring(f'<data xmlns="{namespace}">{xml}</data>', _PARSER)
    if with_defaults == "report-all-tagged":
        for leaf in data.iter():
            if _YANG_DEFAULT in leaf.attrib:
                leaf.set(DEFAULT, leaf.attrib.pop(_YANG_DEFAULT))
    return data
