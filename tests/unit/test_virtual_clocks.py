"""Which virtual clock of a network card a PTP instance steers, and what is refused."""

from __future__ import annotations

import pytest

from agent.composition import Contribution
from agent.mechanisms.clock import kernel, report
from agent.mechanisms.clock.kernel import PtpDaemonAdapter
from agent.mechanisms.clock.rules import DAEMONS
from agent.memory_ports import rehearsal_ports
from agent.model import AgentError
from agent.ptp_daemons import files
from agent.ptp_daemons.files import Daemon
from agent.ptp_daemons.model import (
    ClockConfig,
    ClockState,
    Instance,
    InstancePort,
    Membership,
    TimeStamping,
)

FOLLOWED = Instance(0, 0, 256, 246, 248)
OTHER = Instance(1, 20, 256, 246, 248, free_running=True)
CARDS = {"p1": 0, "p2": 0, "p3": 4}  # /dev/ptpN of each port


@pytest.fixture
def adapter(tmp_path, monkeypatch):
    """Of a switch whose ports have hardware stamps, and whose tsn-clock starts every ptp4l."""
    made = PtpDaemonAdapter(tmp_path)
    monkeypatch.setattr(made, "_wait_for", lambda *_: None)
    monkeypatch.setattr(kernel.status, "is_locked", lambda _: True)
    monkeypatch.setattr(
        kernel,
        "_time_stamping",
        lambda _, ports: (TimeStamping.HARDWARE, {port: CARDS[port] for port in ports}),
    )
    return made


@pytest.fixture
def has(monkeypatch):
    """Say which virtual clocks /dev/ptp0 has."""

    def say(*numbers):
        clocks = {0: [*numbers]}
        monkeypatch.setattr(kernel.virtual_clocks, "of", lambda clock: clocks.get(clock, []))

    say()
    return say


def contributions(*instances, ports=("p1", "p2")):
    its = [(name, number) for number, name in enumerate(ports, start=1)]
    return [
        Contribution("clock", port, DAEMONS, ClockConfig(_of_port(instances, number)))
        for port, number in its
    ]


def _of_port(instances, number):
    return tuple(InstancePort(each, number) for each in instances)


def set_to(adapter, *instances, ports=("p1", "p2")):
    adapter.objects[type(DAEMONS)](DAEMONS, [], contributions(*instances, ports=ports))


def daemon(directory, index):
    return files.decode(files.configuration_file(directory, index).read_bytes())


def options(directory, index):
    return files.configuration_file(directory, index).read_text().splitlines()


def test_an_instance_on_a_card_without_virtual_clocks_steers_the_card_or_only_measures(
    adapter, has, tmp_path
):
    set_to(adapter, FOLLOWED, OTHER)
    assert [daemon(tmp_path, index).virtual_clock for index in (0, 1)] == [None, None]
    assert "free_running 1" not in options(tmp_path, 0)
    assert "free_running 1" in options(tmp_path, 1)


def test_each_instance_on_a_card_with_virtual_clocks_steers_one_of_its_own(adapter, has, tmp_path):
    has(1, 2)
    set_to(adapter, FOLLOWED, OTHER)
    assert [daemon(tmp_path, index).virtual_clock for index in (0, 1)] == [1, 2]
    assert "phc_index 1" in options(tmp_path, 0)
    assert "phc_index 2" in options(tmp_path, 1)
    assert "free_running 1" not in options(tmp_path, 1)


def test_an_instance_with_stamps_of_the_kernel_has_no_virtual_clock(
    adapter, has, tmp_path, monkeypatch
):
    has(1, 2)
    monkeypatch.setattr(
        kernel, "_time_stamping", lambda _, ports: (TimeStamping.SOFTWARE, dict.fromkeys(ports, 0))
    )
    set_to(adapter, OTHER)
    assert daemon(tmp_path, 1).virtual_clock is None
    assert "free_running 1" in options(tmp_path, 1)


def test_a_virtual_clock_is_free_again_when_its_instance_has_gone(adapter, has, tmp_path):
    has(1, 2)
    set_to(adapter, FOLLOWED, OTHER)
    before = contributions(FOLLOWED, OTHER)
    adapter.objects[type(DAEMONS)](DAEMONS, before, contributions(OTHER))
    assert daemon(tmp_path, 1).virtual_clock == 2
    set_to(adapter, FOLLOWED)
    assert daemon(tmp_path, 0).virtual_clock == 1


def test_an_instance_without_a_virtual_clock_is_refused_where_there_are_some(
    adapter, has, tmp_path
):
    has(1)
    with pytest.raises(AgentError) as refusal:
        set_to(adapter, FOLLOWED, OTHER)
    assert str(refusal.value) == (
        "PTP instance 1: each virtual clock of /dev/ptp0 belongs to another instance (0), and "
        "while there are any the kernel refuses to set that clock itself (Device or resource "
        "busy): write 2 into /sys/class/ptp/ptp0/n_vclocks"
    )
    assert not files.configuration_file(tmp_path, 0).exists()


def test_an_instance_over_several_cards_is_refused_where_one_has_virtual_clocks(adapter, has):
    has(1)
    with pytest.raises(AgentError, match=r"p1 \(/dev/ptp0\), p3 \(/dev/ptp4\)"):
        set_to(adapter, FOLLOWED, ports=("p1", "p3"))


def test_a_file_with_a_virtual_clock_is_read_as_what_it_was_made_from():
    made = Daemon(OTHER, TimeStamping.HARDWARE, (("p1", InstancePort(OTHER, 1)),), 2)
    assert files.decode(files.encode(made)) == made


def test_the_operational_data_have_the_virtual_clock_of_an_instance():
    (state,) = rehearsal_ports(["p1"])
    member = Membership(InstancePort(OTHER, 1), 1, TimeStamping.HARDWARE, virtual_clock=2)
    node = report.instances([state.with_part(ClockState((member,)))])
    (shown,) = node["ieee1588-ptp-tt:ptp"]["instances"]["instance"]
    assert shown["tsn-linux:ptp4l"]["virtual-clock"] == 2
