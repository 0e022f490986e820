"""Running, which the server keeps in memory: cheap to read, and never older than sysrepo's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stack.test_netconfd import INTERFACES

ONE = f'<interfaces xmlns="{INTERFACES}"><interface><name>p1</name></interface></interfaces>'
ROUNDS = 20


@pytest.fixture
def reader(netconfd):
    with netconfd.connect() as reader:
        yield reader


def described(name, description):
    return {"name": name, "type": "iana-if-type:ethernetCsmacd", "description": description}


def read(reader, source="running"):
    """The descriptions of the port that is asked for."""
    found = reader.get_config(source, filter=("subtree", ONE)).data
    return [each.text for each in found.iter(f"{{{INTERFACES}}}description")]


def cpu_ns(netconfd):
    """What all threads of the server's processes have had so far."""
    threads = [each for pid in netconfd.pids for each in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((each / "schedstat").read_text().split()[0]) for each in threads)


def cost_ns(netconfd, reader):
    """What reading one port takes, once the server has seen what is running."""
    read(reader)
    before_ns = cpu_ns(netconfd)
    for _ in range(ROUNDS):
        read(reader)
    return (cpu_ns(netconfd) - before_ns) / ROUNDS


def test_what_others_write_is_read_at_once(reader, client):
    for number in range(ROUNDS):
        client.replace(described("p1", f"{number}"))
        assert read(reader) == [f"{number}"]
        assert read(reader, "candidate") == [f"{number}"]


def test_a_read_of_one_port_costs_the_same_however_many_there_are(netconfd, reader, client):
    client.replace(described("p1", "one"))
    alone_ns = cost_ns(netconfd, reader)
    client.replace(*(described(f"p{number}", "one") for number in range(1, 1001)))
    among_many_ns = cost_ns(netconfd, reader)
    assert among_many_ns < 3 * alone_ns
