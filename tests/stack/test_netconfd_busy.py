"""Many sessions that edit the one candidate and commit it at the same time."""

from __future__ import annotations

import asyncio

import pytest

from tests.stack.busy_sessions import busy_sessions
from tests.stack.front_end import INTERFACES, OWN_NAMES

SESSIONS = 40
TIMEOUT_S = 100


def edit_of(name):
    return (
        f'<edit-config><target><candidate/></target><config><interfaces xmlns="{INTERFACES}">'
        f"<interface><name>{name}</name>"
        '<type xmlns:ianaift="urn:ietf:params:xml:ns:yang:iana-if-type">'
        "ianaift:ethernetCsmacd</type></interface></interfaces></config></edit-config>"
    )


def ask_for(name):
    return (
        '<get-config><source><running/></source><filter type="subtree">'
        f'<interfaces xmlns="{INTERFACES}"><interface><name>{name}</name></interface></interfaces>'
        "</filter></get-config>"
    )


@pytest.mark.timeout(2 * TIMEOUT_S)
def test_what_each_of_many_sessions_edited_is_running_when_its_commit_is_answered(server):
    missing = []

    async def work(session):
        name = f"{OWN_NAMES}{session.number}"
        async with asyncio.timeout(TIMEOUT_S):
            for operation in (edit_of(name), "<commit/>"):
                assert b"<ok/>" in await session.ask(operation)
            if f"<name>{name}</name>".encode() not in await session.ask(ask_for(name)):
                missing.append(name)

    assert asyncio.run(busy_sessions(server, SESSIONS, work)) == 0
    assert missing == []
    with server.connect() as client:
        names = client.get_config("running").data.iter(f"{{{INTERFACES}}}name")
        assert len({each.text for each in names if each.text.startswith(OWN_NAMES)}) == SESSIONS
