"""Requests for a NETCONF server, from well-formed ones of every operation to far from it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

from hypothesis import strategies as st
from lxml import etree

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
_NMDA = "urn:ietf:params:xml:ns:yang:ietf-netconf-nmda"
_DATASTORES = 'xmlns:ds="urn:ietf:params:xml:ns:yang:ietf-datastores"'
_IF = 'xmlns:if="urn:ietf:params:xml:ns:yang:ietf-interfaces"'
_MONITORING = "urn:ietf:params:xml:ns:yang:ietf-netconf-monitoring"
_NOTIFICATION = "urn:ietf:params:xml:ns:netconf:notification:1.0"
_DEFAULTS = "urn:ietf:params:xml:ns:yang:ietf-netconf-with-defaults"
_INTERFACE = (
    '<interfaces xmlns="urn:ietf:params:xml:ns:yang:ietf-interfaces" '
    'xmlns:ianaift="urn:ietf:params:xml:ns:yang:iana-if-type"><interface><name>p1</name>'
    "<type>ianaift:ethernetCsmacd</type><description>one</description></interface></interfaces>"
)
_SUBTREE = (
    '<interfaces xmlns="urn:ietf:params:xml:ns:yang:ietf-interfaces"><interface/></interfaces>'
)

# One of each, with every parameter somewhere. Locks, confirmed commits and sessions end soon.
OPERATIONS = (
    "<get/>",
    f"<get><filter type='subtree'>{_SUBTREE}</filter></get>",
    f"<get><with-defaults xmlns='{_DEFAULTS}'>report-all</with-defaults></get>",
    (
        f"<get><filter {_IF} type='xpath' "
        "select=\"/if:interfaces/if:interface[if:name='p1']/if:description\"/></get>"
    ),
    "<get-config><source><running/></source></get-config>",
    f"<get-config><source><startup/></source><filter>{_INTERFACE}</filter></get-config>",
    (
        "<edit-config><target><candidate/></target><default-operation>merge</default-operation>"
        "<test-option>test-then-set</test-option><error-option>rollback-on-error</error-option>"
        f"<config>{_INTERFACE}</config></edit-config>"
    ),
    "<copy-config><target><candidate/></target><source><running/></source></copy-config>",
    (
        f"<copy-config><target><startup/></target><source><config>{_INTERFACE}</config></source>"
        "</copy-config>"
    ),
    (
        "<copy-config><target><url>file:///etc/passwd</url></target><source><running/></source>"
        "</copy-config>"
    ),
    "<delete-config><target><startup/></target></delete-config>",
    "<lock><target><candidate/></target></lock>",
    "<unlock><target><candidate/></target></unlock>",
    "<validate><source><candidate/></source></validate>",
    f"<validate><source><config>{_INTERFACE}</config></source></validate>",
    "<commit/>",
    "<commit><confirmed/><confirm-timeout>1</confirm-timeout></commit>",
    "<commit><confirmed/><confirm-timeout>1</confirm-timeout><persist>x</persist></commit>",
    "<commit><persist-id>x</persist-id></commit>",
    "<cancel-commit><persist-id>x</persist-id></cancel-commit>",
    "<discard-changes/>",
    "<close-session/>",
    "<kill-session><session-id>4000000000</session-id></kill-session>",
    (
        f"<get-schema xmlns='{_MONITORING}'><identifier>ietf-interfaces</identifier>"
        "<version>2018-02-20</version><format>yang</format></get-schema>"
    ),
    (
        f"<get-data xmlns='{_NMDA}' {_DATASTORES}><datastore>ds:operational</datastore>"
        f"<subtree-filter>{_SUBTREE}</subtree-filter><config-filter>true</config-filter>"
        "<max-depth>3</max-depth><with-origin/></get-data>"
    ),
    (
        f"<get-data xmlns='{_NMDA}' {_DATASTORES} {_IF}>"
        "<datastore>ds:running</datastore><xpath-filter>/if:interfaces</xpath-filter></get-data>"
    ),
    (
        f"<edit-data xmlns='{_NMDA}' {_DATASTORES}><datastore>ds:candidate</datastore>"
        f"<default-operation>none</default-operation><config>{_INTERFACE}</config></edit-data>"
    ),
    (
        f"<create-subscription xmlns='{_NOTIFICATION}'><stream>NETCONF</stream>"
        "<startTime>2026-01-01T00:00:00Z</startTime><stopTime>2026-01-01T00:00:01Z</stopTime>"
        "</create-subscription>"
    ),
)

_NAMES = ("config", "interface", "name", "running", "filter", "rpc", "x", "session-id", "url")
_NAMESPACES = (
    BASE,
    "",
    "urn:nothing",
    _NMDA,
    "urn:ietf:params:xml:ns:yang:ietf-interfaces",
)
_ATTRIBUTES = (
    f"{{{BASE}}}operation",
    "operation",
    "select",
    "type",
    "message-id",
    "{urn:ietf:params:xml:ns:yang:1}insert",
    "{urn:ietf:params:xml:ns:yang:1}key",
    "{urn:ietf:params:xml:ns:yang:1}value",
    "{urn:ietf:params:xml:ns:netconf:default:1.0}default",
)
# What has broken parsers of all kinds: extremes of numbers, paths, templates, other encodings.
TEXTS = (
    *("", " ", "0", "1", "-1", "255", "4294967295", "4294967296", "18446744073709551616", "1e9"),
    *("true", "running", "replace", "delete", "create", "remove", "none", "subtree", "xpath"),
    *(
        "x" * 300,
        "x" * 70_000,
        "\u00e9\u4e2d\U0001f600",
        "%s%n",
        "../../etc/passwd",
        "]]>]]>",
        "\n##\n",
    ),
    *("2026-01-01T00:00:00Z", "9999-12-31T23:59:59+14:00", "2026-13-01T00:00:00Z", "ds:nothing"),
)
XPATHS = (
    *("/", "//*", "/*", "//.", "..", "1", "'a'", "true()", "count(//*)", "/if:interfaces", "/x:y"),
    *(
        "//*[//*]",
        "//*[//*[//*]]",
        "//*[.//*[..//*[.//*]]]",
        "/*[",
        "/*]",
        "((((",
        "$x",
        "deref(.)",
    ),
    '/if:interfaces/if:interface[if:name="a\'b"]',
    "/if:interfaces/if:interface[re-match(if:name, '(a+)+$')]",
    "//*[contains(string(.), 'a') or translate(., 'a', 'b') = 'b']",
    "|".join(["/if:interfaces"] * 200),
    "/*" + "[1]" * 500,
    "(" * 2000,
    "/*[not(" * 300 + "1" + ")]" * 300,
    "-" * 5000 + "1",
)


def _delete(node: etree._Element, _choice: int) -> None:
    parent = node.getparent()
    if parent is not None:
        parent.remove(node)


def _repeat(node: etree._Element, choice: int) -> None:
    parent = node.getparent()
    if parent is not None:
        for _ in range(1 + choice % 3):
            parent.append(deepcopy(node))


def _nest(node: etree._Element, choice: int) -> None:
    parent = node.getparent()
    if parent is not None:
        for _ in range((1, 10, 200, 400)[choice % 4]):
            wrapper = etree.SubElement(parent, node.tag)
            parent = wrapper
        parent.append(deepcopy(node))


def _rename(node: etree._Element, choice: int) -> None:
    namespace = etree.QName(node).namespace
    name = _NAMES[choice % len(_NAMES)]
    node.tag = f"{{{namespace}}}{name}" if namespace else name


def _move_to_namespace(node: etree._Element, choice: int) -> None:
    namespace = _NAMESPACES[choice % len(_NAMESPACES)]
    name = etree.QName(node).localname
    node.tag = f"{{{namespace}}}{name}" if namespace else name


def _say(node: etree._Element, choice: int) -> None:
    node.text = TEXTS[choice % len(TEXTS)]


def _ask_xpath(node: etree._Element, choice: int) -> None:
    expression = XPATHS[choice % len(XPATHS)]
    node.text = expression
    node.set("select", expression)
    node.set("type", "xpath")


def _attribute(node: etree._Element, choice: int) -> None:
    value = TEXTS[choice // len(_ATTRIBUTES) % len(TEXTS)]
    node.set(_ATTRIBUTES[choice % len(_ATTRIBUTES)], value)


def _graft(node: etree._Element, choice: int) -> None:
    other = etree.fromstring(f'<rpc xmlns="{BASE}">{OPERATIONS[choice % len(OPERATIONS)]}</rpc>')
    node.append(other[0])


def _comment(node: etree._Element, choice: int) -> None:
    node.insert(0, (etree.Comment("c") if choice % 2 else etree.ProcessingInstruction("p", "i")))


_MUTATIONS: tuple[Callable[[etree._Element, int], None], ...] = (
    *(_delete, _repeat, _nest, _rename, _move_to_namespace, _say, _say, _ask_xpath, _attribute),
    *(_graft, _comment),
)

_ENTITIES = (
    b'<!DOCTYPE rpc [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
    b'<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]>'
)
_DAMAGE = (
    b"\0",
    b"\xff\xfe",
    b"<",
    b">",
    b"&",
    b"&#0;",
    b"&#x41;",
    b"]]>",
    b"<![CDATA[",
    b"\xed\xa0\x80",
    b"\n#1\n",
    b"<a/>",
)

choices = st.integers(min_value=0, max_value=1023)


@st.composite
def operations(draw: st.DrawFn) -> bytes:
    """An <rpc> that began as a valid one."""
    return request(
        draw(st.integers(0, len(OPERATIONS) - 1)),
        draw(
            st.lists(st.tuples(st.integers(0, len(_MUTATIONS) - 1), choices, choices), max_size=4)
        ),
    )


def request(seed: int, changes: list[tuple[int, int, int]]) -> bytes:
    """Operation number `seed` with changes made: which one, to which node, with which choice."""
    rpc = etree.fromstring(f'<rpc xmlns="{BASE}" message-id="7">{OPERATIONS[seed]}</rpc>')
    for kind, place, choice in changes:
        nodes = [node for node in rpc.iter() if isinstance(node.tag, str)]
        _MUTATIONS[kind](nodes[place % len(nodes)], choice)
    return etree.tostring(rpc)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A message that need not be XML any more."""
    message = bytearray(draw(operations()))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(message)))
        cut = draw(st.integers(0, 20))
        message[place : place + cut] = draw(st.sampled_from(_DAMAGE) | st.binary(max_size=8))
    if draw(st.integers(0, 7)) == 0:
        return _ENTITIES + bytes(message)
    return bytes(message)


messages = operations() | damaged()
