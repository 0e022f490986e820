"""Every function of XPath 1.0 and of YANG 1.1, applied to every kind of node.

What a function is given is made from tables: one call of each form for each node of the module
fuzz-kinds, and for what is no node of it at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import quoteattr

from hypothesis import strategies as st

from tests.fuzz.rpcs import BASE

MODULE = Path(__file__).with_name("fuzz-kinds.yang")
_NAMESPACE = "urn:tsn-control-plane:test:fuzz-kinds"
_TOP = "/k:kinds"
CONTENT = (
    f'<kinds xmlns="{_NAMESPACE}" xmlns:k="{_NAMESPACE}"><leaf>a</leaf><number>-3</number>'
    "<decimal>1.50</decimal><binary>AAAA</binary><boolean>true</boolean><leafref>a</leafref>"
    "<dangling-leafref>z</dangling-leafref><identityref>k:swift</identityref><bits>up down</bits>"
    "<enumeration>green</enumeration><empty/><union>k:bird</union>"
    "<instance-identifier>/k:kinds/k:list[k:name='a']</instance-identifier>"
    "<dangling-instance-identifier>/k:kinds/k:list[k:name='z']</dangling-instance-identifier>"
    "<leaf-list>a</leaf-list><leaf-list>b</leaf-list><list><name>a</name><value>b</value></list>"
    "<list><name>b</name><value>z</value></list><container><leaf>a</leaf></container>"
    "<anydata><other xmlns='urn:other'>1</other></anydata>"
    "<anyxml><other xmlns='urn:other'>1</other></anyxml></kinds>"
)

# {0} is what the function is applied to, {1} a second argument.
_CALLS = (
    *("last()", "position()", "count({0})", "id({0})", "local-name({0})", "local-name()"),
    *("namespace-uri({0})", "namespace-uri()", "name({0})", "name()", "string({0})", "string()"),
    *("concat({0}, {1})", "starts-with({0}, {1})", "contains({0}, {1})"),
    *("substring-before({0}, {1})", "substring-after({0}, {1})"),
    *("substring({0}, {1})", "substring({0}, 0 div 0, 1 div 0)", "string-length({0})"),
    *("string-length()", "normalize-space({0})", "normalize-space()", "translate({0}, {1}, {1})"),
    *("boolean({0})", "not({0})", "true()", "false()", "lang({0})", "number({0})", "number()"),
    *("sum({0})", "floor({0})", "ceiling({0})", "round({0})"),
    *("current()", "re-match({0}, {1})", "re-match({1}, {0})", "deref({0})", "deref({0})/.."),
    *("derived-from({0}, {1})", "derived-from-or-self({0}, {1})", "enum-value({0})"),
    *("bit-is-set({0}, {1})", "bit-is-set({1}, {0})"),
)
_LEAVES = (
    *("leaf", "number", "decimal", "binary", "boolean", "leafref", "dangling-leafref"),
    *("identityref", "bits", "enumeration", "empty", "union", "instance-identifier"),
    "dangling-instance-identifier",
)
_KINDS = (*_LEAVES, "leaf-list", "list", "container", "anydata", "anyxml", "nothing")
_NODES = (
    *(f"{_TOP}/k:{kind}" for kind in _KINDS),
    *(_TOP, "/", "/*", "//*", ".", "..", "text()", f"{_TOP}/k:leaf/text()", f"{_TOP}/k:anydata/*"),
    *("@*", "//@*", "attribute::*/*", f"{_TOP}/k:leaf/@*/..", f"{_TOP}/ancestor::*"),
    *("k:list/preceding::*", "namespace::*", "'a'", "1"),
)
_SECOND = ("'a'", "'k:animal'", "'up'", "''", "'('", ".")


def expressions() -> Iterator[str]:
    """Every call of every function, on every kind of node."""
    for call in _CALLS:
        if "{0}" not in call:
            yield from (f"{_TOP}/*[{call}]", call)
            continue
        # An identity is looked up before there is a node: libyang needs a module for its name.
        seconds = ("'k:animal'", "'a'") if "derived" in call else ("'up'",)
        for node, second in itertools.product(_NODES, seconds):
            yield f"{_TOP}/*[{call.format(node, second)}]"
        if "derived" in call:
            yield from (call.format(node, "'a'") for node in _NODES)


@st.composite
def _nested(draw: st.DrawFn) -> str:
    """A call in a call, on a node, in a predicate or by itself."""
    expression = draw(st.sampled_from(_NODES))
    for _ in range(draw(st.integers(1, 3))):
        call = draw(st.sampled_from(_CALLS))
        expression = call.format(expression, draw(st.sampled_from(_SECOND)))
        if draw(st.booleans()):
            expression = f"{draw(st.sampled_from(_NODES[:-2]))}[{expression}]"
    return expression


def request(expression: str) -> bytes:
    """A request for what the expression selects of the configuration."""
    select = quoteattr(expression)
    filter_ = f"<filter type='xpath' xmlns:k='{_NAMESPACE}' select={select}/>"
    get = f"<get-config><source><running/></source>{filter_}</get-config>"
    return f"<rpc xmlns='{BASE}' message-id='7'>{get}</rpc>".encode()


nested_requests = _nested().map(request)
