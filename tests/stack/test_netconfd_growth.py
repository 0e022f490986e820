"""The cost of what a client sends grows with its length, and hardly faster.

Each kind is sent in lengths of n, 2n and 4n. CPU time and memory are those of the session's process
and of the broker, which answers it. Others who use the processor's caches only ever add to what a
message takes, so the least of several messages is compared. What is costly by its meaning and not
by its length, such as a query over all nodes for each node, is bounded elsewhere.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.stack.attacks import AttackersSession, names
from tests.stack.front_end import REPLY_TIMEOUT_S
from tests.stack.netconf_client import INTERFACES
from tests.stack.netconfd_process import on_cpu_s

# By the number of times that a message is longer: 2 and 4 where the cost is linear, 4 and 16 where
# it is quadratic.
MAX_GROWTH = {2: 3.3, 4: 7.0}
MAX_ROUNDS = 5
# What is not worth a look: a request by itself, and the pools of an allocator.
MIN_CPU_S = 0.2
MIN_MEMORY_OCTETS = 40 * 2**20
KIB = 1024
ATTRIBUTE = 'a{}=""'
TYPE = '<type xmlns:t="urn:ietf:params:xml:ns:yang:iana-if-type">t:ethernetCsmacd</type>'


@dataclass(frozen=True)
class Request:
    """An operation, what goes into the tag of its <rpc>, and the octets of each chunk."""

    operation: str
    attributes: str = ""
    chunk_octets: int | None = None


def xpath(expression):
    return Request(f'<get><filter type="xpath" select="{expression}"/></get>')


def subtree(content):
    return Request(
        f'<get><filter><interfaces xmlns="{INTERFACES}">{content}</interfaces></filter></get>'
    )


def edit(content):
    return Request(
        "<edit-config><target><candidate/></target><config>"
        f'<interfaces xmlns="{INTERFACES}">{content}</interfaces></config></edit-config>'
    )


def interfaces(count):
    return "".join(
        f"<interface><name>g{number}</name>{TYPE}</interface>" for number in range(count)
    )


# What 4n is of each kind: the most that a client may send, or what takes some tenths of a second.
KINDS = {
    "attributes": (2 * 2**20, lambda n: Request("<get/>", names(ATTRIBUTE, n))),
    "namespaces": (2 * 2**20, lambda n: Request("<get/>", names('xmlns:a{}="u"', n))),
    "attributes below": (2 * 2**20, lambda n: Request("<get " + names(ATTRIBUTE, n) + "/>")),
    "parameters": (2 * 2**20, lambda n: Request(f"<get>{'<a/>' * (n // 4)}</get>")),
    "configurations": (
        2**20,
        lambda n: Request(
            f"<edit-config><target><candidate/></target>{'<config/>' * (n // 9)}</edit-config>"
        ),
    ),
    "name in an expression": (900 * KIB, lambda n: xpath("/" + "a" * n)),
    "unprefixed steps": (900 * KIB, lambda n: xpath("/a" * (n // 2))),
    "literal": (900 * KIB, lambda n: xpath(f"/*[.='{'x' * n}']")),
    "blanks": (900 * KIB, lambda n: xpath("/*" + " " * n)),
    "negations": (400 * KIB, lambda n: xpath("/*[" + "-" * n + "1]")),
    "parentheses": (400 * KIB, lambda n: xpath("(" * n + "/*" + ")" * n)),
    "predicates": (256 * KIB, lambda n: xpath("/*" + "[1]" * (n // 3))),
    "union": (256 * KIB, lambda n: xpath("|".join(["/*"] * (n // 3)))),
    "subtree of names": (
        512 * KIB,
        lambda n: subtree("".join(f"<a{number}/>" for number in range(n // 10))),
    ),
    "subtree of values": (
        900 * KIB,
        lambda n: subtree(f"<interface><name>{'x' * n}</name></interface>"),
    ),
    "subtree of entries": (
        256 * KIB,
        lambda n: subtree(
            "".join(f"<interface><name>g{i}</name></interface>" for i in range(n // 40))
        ),
    ),
    "deep": (2**20, lambda n: Request(f"<get>{'<a>' * (n // 7)}{'</a>' * (n // 7)}</get>")),
    "value of an edit": (
        3 * 2**20,
        lambda n: edit(
            f"<interface><name>g</name>{TYPE}<description>{'x' * n}</description></interface>"
        ),
    ),
    "entries of an edit": (640 * KIB, lambda n: edit(interfaces(n // 140))),
    "wrong value": (
        3 * 2**20,
        lambda n: edit(f"<interface><name>g</name><enabled>x{' ' * n}y</enabled></interface>"),
    ),
    "unknown names": (
        512 * KIB,
        lambda n: edit("".join(f"<a{number}/>" for number in range(n // 10))),
    ),
    "chunks": (
        400 * KIB,
        lambda n: Request(f"<get-config><a>{'x' * n}</a></get-config>", chunk_octets=1),
    ),
}


@dataclass(frozen=True)
class Cost:
    """What one message took, beyond what the processes had before it."""

    cpu_s: float
    memory_octets: int

    def least(self, other: Cost) -> Cost:
        return Cost(min(self.cpu_s, other.cpu_s), min(self.memory_octets, other.memory_octets))


def most_memory_octets(pid):
    """The most that the process has had in memory since `forget_memory`."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)[1]) * KIB


def forget_memory(pid):
    # proc_pid_clear_refs(5): the peak becomes what it has now
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def cost(netconfd, request):
    """Of one message, in a session of its own."""
    return asyncio.run(_cost(netconfd, request))


async def _cost(netconfd, request):
    session = AttackersSession()
    # The process of an earlier one may still be ending.
    earlier = set(netconfd.session_pids)
    async with asyncio.timeout(REPLY_TIMEOUT_S * 3):
        await session.open(netconfd, "operator")
        # Whatever a first request loads.
        session.send("<discard-changes/>")
        assert await session.receive()
        (own,) = set(netconfd.session_pids) - earlier
        pids = [netconfd.broker_pid, own]
        for pid in pids:
            forget_memory(pid)
        before = Cost(on_cpu_s(pids), sum(map(most_memory_octets, pids)))
        session.send(request.operation, request.attributes, request.chunk_octets)
        assert await session.receive(), "the session ended without an answer"
        after = Cost(on_cpu_s(pids), sum(map(most_memory_octets, pids)))
        session.send("<close-session/>")
        while await session.receive() is not None:
            pass
        session.close()
    return Cost(after.cpu_s - before.cpu_s, after.memory_octets - before.memory_octets)


@pytest.mark.parametrize("kind", KINDS)
def test_the_cost_of_what_a_client_sends_grows_with_its_length(shared_netconfd, kind):
    largest, request = KINDS[kind]
    costs = _costs(shared_netconfd, largest, request)
    for _ in range(MAX_ROUNDS - 1):
        if _are_in_proportion(*costs):
            break
        again = _costs(shared_netconfd, largest, request)
        costs = [one.least(other) for one, other in zip(costs, again, strict=True)]

    assert _are_in_proportion(*costs), costs


def _costs(netconfd, largest, request):
    """Of a quarter of the length, of half of it, and of all of it."""
    return [cost(netconfd, request(largest // part)) for part in (4, 2, 1)]


def _are_in_proportion(short, middle, long):
    # Memory comes in the steps of an allocator: twice the length may take three times as much.
    return (
        long.cpu_s <= max(MIN_CPU_S, MAX_GROWTH[2] * middle.cpu_s)
        and long.cpu_s <= max(MIN_CPU_S, MAX_GROWTH[4] * short.cpu_s)
        and long.memory_octets <= max(MIN_MEMORY_OCTETS, MAX_GROWTH[4] * short.memory_octets)
    )
