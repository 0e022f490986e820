"""The XML of the messages layer: hello, rpc and rpc-reply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lxml import etree

from agent.netconfd.capabilities import BASE_1_0, BASE_1_1
from agent.netconfd.errors import BASE, RpcError, attribute_error, shortened

# An xs:unsignedInt chosen by the server; a client's hello must not have one.
SESSION_ID = f"{{{BASE}}}session-id"


# A tag of four octets becomes a node of some two hundred. 2,048 gate control entries
# take 20,000 tags.
MAX_MARKUP = 262_144
# libxml2 keeps the attributes of an element, and its namespace declarations, in lists: to look each
# of them up, or to add it to the reply, takes time that grows with the square of their number.
MAX_ATTRIBUTES = 64
MAX_DECLARATIONS = 64

_MANY_ATTRIBUTES = etree.XPath(f"descendant-or-self::*[@*[{MAX_ATTRIBUTES + 1}]]")


class NotAHello(Exception):
    """The client's first message opens no session."""


def parse(message: bytes) -> etree._Element:
    """The message's root element. Raises RpcError malformed-message.

    Nothing outside the message is read, and no document type (so no entity) is accepted.
    """
    if message.count(b"<") + message.count(b"=") > MAX_MARKUP:
        raise RpcError(
            "too-big",
            f"a message has at most {MAX_MARKUP} tags and attributes; send it in parts",
            layer="rpc",
        )
    parser = etree.XMLParser(
        # NETCONF has no other (RFC 6241 section 3), and in another the count would be wrong.
        encoding="utf-8",
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(message.strip(), parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise RpcError("malformed-message", f"not well-formed XML: {error}", layer="rpc") from None
    if root.getroottree().docinfo.doctype:
        raise RpcError(
            "malformed-message", "a message has no document type declaration", layer="rpc"
        )
    return root


def hello(capabilities: Iterable[str], session_id: int) -> bytes:
    """The server's hello."""
    root = etree.Element(f"{{{BASE}}}hello", nsmap={None: BASE})
    listed = etree.SubElement(root, f"{{{BASE}}}capabilities")
    for capability in capabilities:
        etree.SubElement(listed, f"{{{BASE}}}capability").text = capability
    etree.SubElement(root, SESSION_ID).text = str(session_id)
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8")


def client_capabilities(message: bytes) -> set[str]:
    """What the client's hello offers. Raises NotAHello."""
    try:
        root = parse(message)
    except RpcError as error:
        raise NotAHello(shortened(error.message)) from None
    if root.tag != f"{{{BASE}}}hello":
        name = shortened(etree.QName(root).localname)
        raise NotAHello(f"expected <hello>, found <{name}>")
    if root.find(SESSION_ID) is not None:
        raise NotAHello("a client's <hello> has no <session-id>")
    offered = root.findall(f"{{{BASE}}}capabilities/{{{BASE}}}capability")
    capabilities = {(capability.text or "").strip() for capability in offered}
    if not capabilities & {BASE_1_0, BASE_1_1}:
        raise NotAHello("the client offers neither base:1.0 nor base:1.1")
    return capabilities


def parse_rpc(root: etree._Element) -> etree._Element:
    """The operation element of a request. Raises RpcError.

    That is also raised (too-big) for more than `MAX_ATTRIBUTES` of an element, or more than
    `MAX_DECLARATIONS` of namespaces by an element and those around it.
    """
    name = etree.QName(root)
    if root.tag != f"{{{BASE}}}rpc":
        raise RpcError(
            "malformed-message",
            f"expected <rpc> in namespace {BASE}, "
            f"found <{name.localname}> in {name.namespace or 'none'}",
            layer="rpc",
        )
    if _MANY_ATTRIBUTES(root) or _declares_many(root):
        raise RpcError(
            "too-big",
            f"an element has at most {MAX_ATTRIBUTES} attributes, and it and those around it "
            f"declare at most {MAX_DECLARATIONS} namespaces",
            layer="rpc",
        )
    if root.get("message-id") is None:
        raise attribute_error(
            "missing-attribute",
            "<rpc> needs the attribute message-id",
            attribute="message-id",
            element="rpc",
            layer="rpc",
        )
    if len(root) != 1:
        raise RpcError(
            "malformed-message", f"<rpc> holds {len(root)} operations, expected one", layer="rpc"
        )
    return root[0]


def reply_attributes(root: etree._Element) -> tuple[dict[str, str], dict[str | None, str]]:
    """The attributes of an <rpc> and the namespaces they may use, which its reply repeats.

    Of one that `parse_rpc` refuses for having too many: the message-id alone.
    """
    if root.tag != f"{{{BASE}}}rpc":
        return {}, {}
    if len(root.attrib) > MAX_ATTRIBUTES or len(root.nsmap) > MAX_DECLARATIONS:
        message_id = root.get("message-id")
        return ({} if message_id is None else {"message-id": message_id}), {}
    attributes = {str(key): str(value) for key, value in root.attrib.items()}
    return attributes, {key: value for key, value in root.nsmap.items() if key is not None}


def reply(
    content: Sequence[etree._Element | RpcError],
    attributes: dict[str, str],
    nsmap: dict[str | None, str],
) -> bytes:
    """An <rpc-reply>; <ok/> if there is no content."""
    root = etree.Element(f"{{{BASE}}}rpc-reply", nsmap={None: BASE, **nsmap})
    for key, value in attributes.items():
        root.set(key, value)
    for each in content or [etree.Element(f"{{{BASE}}}ok")]:
        if isinstance(each, RpcError):
            each.add_to(root)
        else:
            root.append(each)
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8")


def _declares_many(root: etree._Element) -> bool:
    declared = 0
    for event, _ in etree.iterwalk(root, events=("start-ns", "end-ns")):
        declared += 1 if event == "start-ns" else -1
        if declared > MAX_DECLARATIONS:
            return True
    return False
