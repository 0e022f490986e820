"""A client's filter as the XPath that sysrepo evaluates: what is taken, and what it costs."""

from __future__ import annotations

import time
from xml.sax.saxutils import quoteattr

import pytest
from lxml import etree

from agent.netconfd import filters
from agent.netconfd.errors import RpcError

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
