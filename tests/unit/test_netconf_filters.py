"""A client's filter as the XPath that sysrepo evaluates: what is taken, and what it costs."""

from __future__ import annotations

import time
import tracemalloc
from xml.sax.saxutils import quoteattr

import pytest
from lxml import etree

from agent.netconfd.errors import RpcError
from agent.netconfd.session import filters

INTERFACES = "urn:ietf:params:xml:ns:yang:ietf-interfaces"
MODULES = {INTERFACES: "ietf-interfaces"}


def xpath(expression):
    return filters.to_xpath(
        etree.fromstring(
            f"<filter type='xpath' xmlns:if='{INTERFACES}' select={quoteattr(expression)}/>"
        ),
        MODULES,
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("/if:interfaces", "/ietf-interfaces:interfaces"),
        ("/if:*/child::if:name", "/ietf-interfaces:*/child::ietf-interfaces:name"),
        ("//if:name[. = 'if:x']", "//ietf-interfaces:name[. = 'if:x']"),
        ("/other:x | /if:x[if:a-if:b]", "/other:x | /ietf-interfaces:x[ietf-interfaces:a-if:b]"),
        ("/ietf-interfaces:interfaces", "/ietf-interfaces:interfaces"),
        ("//*[if:sum='deref(.)']", "//*[ietf-interfaces:sum='deref(.)']"),
        ('//if:deref[.="@"]', '//ietf-interfaces:deref[.="@"]'),
        ("//attribute/self::if:attribute", "//attribute/self::ietf-interfaces:attribute"),
        ("//*[resum(.)]", "//*[resum(.)]"),
    ],
)
def test_prefixes_outside_literals_become_module_names(expression, expected):
    assert xpath(expression) == expected


@pytest.mark.parametrize("function", ["deref", "bit-is-set", "enum-value", "sum"])
@pytest.mark.parametrize("form", ["{}(.)", "{} \n(.)", "a-{0} or {0}(.)", "'('|{}(.)", "1{}(.)"])
def test_a_function_that_crashes_libyang_is_refused_by_name(function, form):
    with pytest.raises(RpcError, match=f"calls {function}\\(\\), which this server") as error:
        xpath(f"//*[{form.format(function)}]")
    assert error.value.tag == "invalid-value"


@pytest.mark.parametrize("expression", ["//@*", "//*[@a]/x", "//*/attribute :: *", "@if:a"])
def test_a_filter_for_attributes_is_refused(expression):
    with pytest.raises(RpcError, match="selects attributes"):
        xpath(expression)


@pytest.mark.parametrize("expression", ["//*/ancestor::*", "/a/b/ancestor-or-self ::node()"])
def test_an_axis_that_crashes_libyang_is_refused_by_name(expression):
    with pytest.raises(RpcError, match="has the axis ancestor"):
        xpath(expression)
    assert xpath("/if:ancestor/ancestor") == "/ietf-interfaces:ancestor/ancestor"


@pytest.mark.parametrize("expression", ["\U0010ffff", "/if:caf\xe9", "//*[\xe9deref(.)]"])
def test_a_name_that_yang_cannot_have_is_refused(expression):
    with pytest.raises(RpcError, match=r"has U\+(10FFFF|00E9) in a name"):
        xpath(expression)
    assert xpath(f"//*[.='{expression[0]}']") == f"//*[.='{expression[0]}']"


@pytest.mark.parametrize(
    "expression", ["/{}", "/'{}", '/{0}"{0}', "/1{}", "/{} (", "/if:{}:"], ids=str
)
def test_the_work_on_an_expression_grows_no_faster_than_its_length(expression):
    begun_s = time.process_time()
    xpath(expression.format("a" * 500_000))
    # Looking into each name again at each of its letters took 48 s for 64,000 of them.
    assert time.process_time() - begun_s < 2


def subtree(content):
    interfaces = f"<interfaces xmlns='{INTERFACES}'>{content}</interfaces>"
    return filters.to_xpath(etree.fromstring(f"<filter>{interfaces}</filter>"), MODULES)


def test_a_subtree_becomes_a_path_for_each_of_its_selections():
    selected = subtree('<interface><name>it\'s "1"</name><enabled/><type/></interface>')

    here = (
        "/ietf-interfaces:interfaces/ietf-interfaces:interface"
        """[ietf-interfaces:name=concat('it', "'", 's "1"')]"""
    )
    assert selected.split(" | ") == [
        f"{here}/ietf-interfaces:{leaf}" for leaf in ("name", "enabled", "type")
    ]


@pytest.mark.parametrize(
    "content",
    [
        f"<interface><name>{'x' * 500_000}</name>{'<a/>' * 1_000}</interface>",
        f"<interface><name>{'x' * 500_000}</name>{'<a>1</a>' * 1_000}<b/></interface>",
        "<name>" + "x" * 500_000 + "</name>" + '<a><b xmlns="urn:none"/></a>' * 1_000,
        f"<interface><name>{chr(39) * 500_000}{chr(34) * 500_000}</name></interface>",
    ],
    ids=["selections", "content matches", "without a selection", "quotes"],
)
def test_a_filter_that_becomes_far_longer_than_it_is_takes_no_memory_for_that(content):
    tracemalloc.start()
    try:
        with pytest.raises(RpcError, match="more than 1048576 octets") as error:
            subtree(content)
        _, peak_octets = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert error.value.tag == "too-big"
    assert peak_octets < 32 * 2**20


@pytest.mark.parametrize("expression", ["/if:a" * 250_000, "if:a|" * 100_000])
def test_an_expression_is_as_long_as_a_subtree_at_most(expression):
    with pytest.raises(RpcError) as error:
        xpath(expression)
    assert error.value.tag == "too-big"


@pytest.mark.parametrize(
    "expression",
    [
        "/*[" + "-" * 5_001 + "1]",
        "|".join(["/if:a"] * 5_002),
        "/*[1" + " and 1" * 5_001 + "]",
        "/*[1" + "+1" * 5_001 + "]",
    ],
    ids=["negations", "union", "and", "sum"],
)
def test_an_expression_has_no_more_operators_than_are_evaluated_quickly(expression):
    with pytest.raises(RpcError, match="more than 5000 operators") as error:
        xpath(expression)
    assert error.value.tag == "too-big"


def test_what_looks_like_an_operator_in_a_name_or_a_literal_is_none():
    expression = "/if:and-or-div[if:a='" + "-|and " * 2_000 + "']"
    assert "and-or-div" in xpath(expression)
