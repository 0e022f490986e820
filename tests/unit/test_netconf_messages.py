"""What a message may hold before it is looked into, and what its reply repeats of it."""

from __future__ import annotations

import tracemalloc

import pytest

from agent.netconfd.errors import BASE, RpcError
from agent.netconfd.session import edit_config, messages

ATTRIBUTE = 'a{}=""'
NAMESPACE = 'xmlns:p{}="u"'


def rpc(attributes="", content="<get/>"):
    text = f'<rpc xmlns="{BASE}" message-id="m" {attributes}>{content}</rpc>'
    return messages.parse(text.encode())


def many(count, pattern):
    return " ".join(pattern.format(number) for number in range(count))


def nested(depth):
    """Elements in one another, of which each declares one namespace."""
    return "".join(f'<get xmlns:p{each}="u">' for each in range(depth)) + "</get>" * depth


@pytest.mark.parametrize(
    "root",
    [
        rpc(many(63, ATTRIBUTE)),
        rpc(many(63, NAMESPACE)),
        rpc(content="<get " + many(64, ATTRIBUTE) + "/>"),
        rpc(content=nested(63)),
        rpc(content=f"<get>{nested(1) * 1000}</get>"),
    ],
    ids=["attributes", "namespaces", "attributes inside", "namespaces inside", "side by side"],
)
def test_a_message_within_the_limits_is_a_request(root):
    assert messages.parse_rpc(root) is root[0]


@pytest.mark.parametrize(
    "root",
    [
        rpc(many(64, ATTRIBUTE)),
        rpc(many(64, NAMESPACE)),
        rpc(content="<get><x " + many(65, ATTRIBUTE) + "/></get>"),
        rpc(content=nested(64)),
    ],
    ids=["attributes", "namespaces", "attributes inside", "namespaces inside"],
)
def test_a_message_with_too_many_attributes_is_refused_and_its_reply_can_be_matched(root):
    attributes, namespaces = messages.reply_attributes(root)
    with pytest.raises(RpcError, match="at most 64 attributes") as error:
        messages.parse_rpc(root)

    assert (error.value.tag, error.value.layer) == ("too-big", "rpc")
    reply = messages.parse(messages.reply([error.value], attributes, namespaces))
    assert reply.get("message-id") == "m"
    assert len(reply.attrib) <= 64


def test_a_reply_repeats_the_attributes_of_its_request_and_what_they_mean():
    root = rpc('xmlns:ex="urn:ex" ex:user="jo" xml:lang="en"')

    reply = messages.parse(messages.reply([], *messages.reply_attributes(root)))

    assert dict(reply.attrib) == dict(root.attrib)
    assert reply.nsmap == root.nsmap


def test_the_prefixes_of_an_error_path_are_those_that_the_reply_declares_there():
    error = RpcError("invalid-value", "no", path="/m:a/b:c", path_namespaces={"m": "u", "b": BASE})

    root = messages.parse(messages.reply([error], {}, {"other": "u"}))

    path = root.find("{*}rpc-error/{*}error-path")
    assert path.text == "/m:a/b:c"
    assert (path.nsmap["m"], path.nsmap["b"]) == ("u", BASE)


def test_an_edit_does_not_repeat_a_long_namespace_for_each_of_its_nodes():
    config = rpc(content=f"<config xmlns:p='{'u' * 200_000}'>{'<x/>' * 1000}</config>")[0]

    tracemalloc.start()
    try:
        with pytest.raises(RpcError, match="declare namespaces where they are used") as error:
            edit_config.whole(None, config, {BASE: "base"})
        _, peak_octets = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert error.value.tag == "too-big"
    assert peak_octets < 32 * 2**20
