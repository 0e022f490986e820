"""Errors whose text repeats what a client sent: what is kept of it, and what reading it costs."""

from __future__ import annotations

import time

import pytest
from lxml import etree

from agent.netconfd.errors import BASE, MAX_TEXT_OCTETS, RpcError, bad_element

sysrepo_errors = pytest.importorskip("agent.netconfd.sysrepo_errors", exc_type=ImportError)
INVALID = 2  # SR_ERR_INVAL_ARG
MODULES = {"ietf-interfaces": "urn:ietf:params:xml:ns:yang:ietf-interfaces"}


def read(text):
    """The element of what libyang or sysrepo says."""
    (error,) = sysrepo_errors.to_rpc_errors(
        [sysrepo_errors.Item(INVALID, text, None)], MODULES
    ).errors
    return error.add_to(etree.Element("reply"))


def said(element, name):
    return element.findtext(f".//{{{BASE}}}{name}")


@pytest.mark.parametrize(
    "value",
    [
        "x" + " " * 100_000 + "y",
        '(path "' * 20_000,
        'attribute "' * 100 + "a" * 100_000,
        'Missing mandatory prefix "' * 5_000,
        "Too many " * 20_000,
        'No module with namespace "' * 5_000,
        "/" * 100_000 + "@" + "a" * 100_000,
    ],
    ids=lambda value: value[:20],
)
@pytest.mark.parametrize("form", ['Invalid value "{}".', "{}", "{} (path \"/a:b[c='{}']/@d!\")"])
def test_what_a_client_sent_is_read_in_little_time_however_long(form, value):
    begun_s = time.process_time()
    read(form.format(value, value))
    # 100,000 blanks took a minute.
    assert time.process_time() - begun_s < 1


def test_a_long_value_leaves_the_beginning_and_the_path_of_an_error():
    path = "/ietf-interfaces:interfaces/interface[name='p1']/enabled"
    error = read(f'Invalid boolean value "{"é" * 10_000}". (path "{path}")')

    message = said(error, "error-message")
    assert message.startswith('Invalid boolean value "é')
    assert message.endswith(f'(path "{path}")')
    assert "octets left out" in message
    assert len(message.encode()) < MAX_TEXT_OCTETS
    assert said(error, "error-path").endswith("/ietf-interfaces:enabled")


def test_a_path_that_is_too_long_is_left_out_rather_than_cut():
    error = read(f"""Invalid value. (path "/ietf-interfaces:interfaces[name='{"x" * 10_000}']")""")

    assert said(error, "error-path") is None


def test_an_attribute_is_named_without_its_prefix():
    error = read('Annotation definition for attribute "ietf-interfaces:wrong" not found.')

    assert said(error, "error-tag") == "unknown-attribute"
    assert said(error, "bad-attribute") == "wrong"


def test_the_tag_that_a_subscriber_gives_counts_whatever_its_words():
    words = 'Too many entries; Node "x" not found in the table'
    item = sysrepo_errors.Item(INVALID, words, "/ietf-interfaces:interfaces", "resource-denied")
    (error,) = sysrepo_errors.to_rpc_errors([item], MODULES).errors

    assert (error.tag, error.app_tag, error.info, error.message) == (
        *("resource-denied", None, {}),
        words,
    )
    assert error.path == "/ietf-interfaces:interfaces"


def test_every_part_of_an_error_is_short():
    reply = etree.Element("reply")
    long = bad_element("x" * 10_000, "y" * 10_000, "less").add_to(reply)
    whole = RpcError("invalid-value", "x" * MAX_TEXT_OCTETS).add_to(reply)

    assert all(len(each.text or "") < MAX_TEXT_OCTETS for each in long.iter())
    assert said(whole, "error-message") == "x" * MAX_TEXT_OCTETS
