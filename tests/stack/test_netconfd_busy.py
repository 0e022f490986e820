"""Many sessions at the same time: what they commit, and what is left of them in memory."""

from __future__ import annotations

import asyncio
import time

import pytest

from agent.netconfd.garbage import DELAY_S
from tests.stack.busy_sessions import busy_sessions
from tests.stack.front_end import INTERFACES, OWN_NAMES
from tests.stack.netconfd_process import private_octets, wait_until

SESSIONS = 40
TIMEOUT_S = 100
# Caches fill, and allocators find their size, in the first of them.
WARM_UP_WAVES = 3
WAVES = 6
# Of front and broker, each; left to itself Python keeps four tenths more.
MAX_GROWTH = 1.20


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


@pytest.mark.timeout(2 * TIMEOUT_S)
def test_sessions_that_came_and_went_leave_no_memory_behind(netconfd):
    async def work(session):
        await session.ask(ask_for("none"))

    def wave():
        """The memory of front and broker after it."""
        assert asyncio.run(busy_sessions(netconfd, SESSIONS, work)) == 0
        assert wait_until(lambda: not netconfd.session_pids)
        # Longer than garbage waits for its collection.
        time.sleep(2 * DELAY_S)
        return [private_octets(pid) for pid in (netconfd.pid, netconfd.broker_pid)]

    *_, before = [wave() for _ in range(WARM_UP_WAVES)]
    *_, after = [wave() for _ in range(WAVES)]
    growth = [late / early for early, late in zip(before, after, strict=True)]
    assert max(growth) < MAX_GROWTH, growth
