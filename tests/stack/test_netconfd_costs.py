"""What one message of a client may cost the server: processor time, memory, and its life."""

from __future__ import annotations

import pytest

from agent.netconfd.session.framing import encode
from agent.netconfd.session.notifications import NOTIFICATION
from tests.stack.netconf_client import BASE, INTERFACES, NMDA
from tests.stack.test_netconfd_access import HELLO_1_1, said_until_the_end

DATASTORES = "urn:ietf:params:xml:ns:yang:ietf-datastores"
MIB = 2**20
CLOSE = f'<rpc xmlns="{BASE}" message-id="close"><close-session/></rpc>'
# Far more than these messages need, and far less than they took.
CPU_S = 1.0


def answer(netconfd, *messages, username="operator"):
    """What the server says to these messages in one session, and its processor time for that."""
    before_s = netconfd.cpu_s
    said = said_until_the_end(
        netconfd,
        HELLO_1_1,
        *(encode(each.encode(), chunked=True) for each in (*messages, CLOSE)),
        username=username,
    )
    return said.decode(), netconfd.cpu_s - before_s


def markup(octets, pattern):
    """The pattern with one number after the other, about so many octets together."""
    count = octets // (1 + len(pattern.format(10**5)))
    return " ".join(pattern.format(number) for number in range(count))


@pytest.mark.parametrize("pattern", ['a{}=""', 'xmlns:a{}="u"'], ids=["attributes", "namespaces"])
@pytest.mark.parametrize("kib", [48, 1900])
def test_a_user_who_may_only_read_cannot_hold_up_the_server_by_attributes(
    shared_netconfd, pattern, kib
):
    many = markup(kib * 1024, pattern)
    said, taken_s = answer(
        shared_netconfd,
        f'<rpc xmlns="{BASE}" message-id="of rpc" {many}><get/></rpc>',
        f'<rpc xmlns="{BASE}" message-id="of get"><get {many}/></rpc>',
        f'<other xmlns="{BASE}" {many}/>',
        username="observer",
    )

    assert said.count("<error-tag>too-big</error-tag>") + said.count("malformed-message") == 3
    assert taken_s < 3 * CPU_S


@pytest.mark.parametrize("operation", ["get", "get-config", "get-data", "create-subscription"])
def test_no_function_in_a_filter_ends_the_server(shared_netconfd, operation):
    # each crashed libyang, on a leaf that is no leafref or on the root
    crashing = ["//*[deref(.)]", "//*[bit-is-set(/, 'a')]", "//*[enum-value(/)]", "//*[sum(/)]"]
    said, _ = answer(
        shared_netconfd,
        *(_filtered(operation, expression) for expression in crashing),
        username="observer",
    )

    assert said.count("this server does not evaluate") == len(crashing), said
    assert shared_netconfd.alive


@pytest.mark.parametrize("operation", ["get", "get-config", "get-data", "create-subscription"])
def test_an_identity_without_a_prefix_ends_no_session(shared_netconfd, operation):
    # crashed libyang, which takes its module from a node where there is none
    expressions = ["derived-from(., 'a')", "//*[derived-from-or-self(derived-from(/, ''), '(')]"]
    said, _ = answer(
        shared_netconfd,
        *(_filtered(operation, expression) for expression in expressions),
        username="observer",
    )

    assert said.count("<rpc-reply") == len(expressions) + 1, said
    assert "crashed" not in shared_netconfd.log


def _filtered(operation, expression):
    filter_ = f'<filter type="xpath" select="{expression}"/>'
    content = {
        "get": f"<get>{filter_}</get>",
        "get-config": f"<get-config><source><running/></source>{filter_}</get-config>",
        "get-data": f'<get-data xmlns="{NMDA}" xmlns:ds="{DATASTORES}"><datastore>ds:operational'
        f"</datastore><xpath-filter>{expression}</xpath-filter></get-data>",
        "create-subscription": f'<create-subscription xmlns="{NOTIFICATION}">{filter_}'
        "</create-subscription>",
    }[operation]
    return f'<rpc xmlns="{BASE}" message-id="1">{content}</rpc>'


def test_what_no_number_and_no_expression_can_be_is_an_invalid_value(shared_netconfd):
    digits = "9" * 5_000
    operations = [
        f"<commit><confirmed/><confirm-timeout>{digits}</confirm-timeout></commit>",
        f"<kill-session><session-id>{digits}</session-id></kill-session>",
        (
            f'<get-data xmlns="{NMDA}" xmlns:ds="{DATASTORES}"><datastore>ds:running</datastore>'
            f"<max-depth>{digits}</max-depth></get-data>"
        ),
        '<get><filter type="xpath" select="&#x10FFFF;"/></get>',
    ]
    said, _ = answer(
        shared_netconfd,
        *(f'<rpc xmlns="{BASE}" message-id="1">{each}</rpc>' for each in operations),
    )

    assert said.count("<error-tag>invalid-value</error-tag>") == len(operations), said
    assert "Traceback" not in shared_netconfd.log


def test_a_filter_that_repeats_a_long_value_takes_no_memory(netconfd):
    before_mib = netconfd.private_octets / MIB
    leaves = "".join(f"<a{number}/>" for number in range(20_000))
    interface = f"<interface><name>{'x' * 1_000_000}</name>{leaves}</interface>"
    filter_ = f'<filter><interfaces xmlns="{INTERFACES}">{interface}</interfaces></filter>'
    said, taken_s = answer(
        netconfd,
        f'<rpc xmlns="{BASE}" message-id="1"><get>{filter_}</get></rpc>',
        username="observer",
    )

    assert "<error-tag>too-big</error-tag>" in said
    assert netconfd.private_octets / MIB - before_mib < 60
    assert taken_s < CPU_S
