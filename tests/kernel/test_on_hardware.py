"""`scripts/on-hardware` on ports of a kernel: what it reports, and that it leaves no trace."""

from __future__ import annotations

import json
import platform
import runpy
import signal
import subprocess
import tarfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kernel.conftest import SWITCH

SCRIPT = Path(__file__).parents[2] / "scripts/on-hardware"
# So that /sys shows the ports of the namespace.
IN_SWITCH = ["ip", "netns", "exec", SWITCH, SCRIPT]
NO_OFFLOAD = "Device does not have a PTP clock"


def on_hardware(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Without busy processes, beside which virtual time would not pass."""
    command = [*IN_SWITCH, "--seconds", "0", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def state_of(port: str) -> list[str]:
    """All that the script may change at a port."""
    asked = (["tc", "qdisc", "show", "dev", port], ["ethtool", "-k", port])
    return [
        subprocess.run(each, capture_output=True, text=True, check=True).stdout for each in asked
    ]


@pytest.fixture
def report(tmp_path):
    """Runs the script, which is to succeed, and reads its report."""

    def make(*arguments: str) -> dict:
        done = on_hardware(*arguments, "-o", str(tmp_path / "REPORT.tar"))
        assert (done.returncode, done.stderr) == (0, "")
        with tarfile.open(tmp_path / "REPORT.tar") as tar:
            assert tar.getnames() == ["report/report.json", "report/report.txt"]
            assert tar.extractfile("report/report.txt").read().decode() in done.stdout
            return json.load(tar.extractfile("report/report.json"))

    return make


def test_without_a_port_to_try_it_reads_the_machine_alone(ports, report):
    read = report()
    assert read["machine"]["kernel"][0] == "Linux"
    assert "answers" not in json.dumps(read["ports"])
    assert read["not restored"] == []


def test_what_a_driver_takes_and_refuses_is_in_the_report_and_the_port_as_before(ports, report):
    before = state_of("p1")
    port = report("--try", "p1")["ports"]["p1"]
    answers = port["answers"]
    assert port["transmit_queues"] == 8
    assert answers["gates in software"]["taken"]
    assert not answers["gates in hardware"]["taken"]
    assert answers["gates in hardware"]["output"] == NO_OFFLOAD
    assert answers["launch time in software"]["taken"]
    assert not answers["filter and stream gate in hardware"]["taken"]
    assert state_of("p1") == before


def test_a_driver_that_takes_gates_is_told_from_one_that_does_not(offloading_port, report):
    answers = report("--try", offloading_port)["ports"][offloading_port]["answers"]
    assert answers["gates in hardware"]["taken"]
    assert answers["gates in hardware, 430 entries"]["taken"]
    refused = answers["gates in hardware, a class preemptable"]
    assert refused["output"] == "Device does not support preemption"


def test_neither_addresses_nor_serial_numbers_nor_the_host_name_are_in_an_answer():
    anonymous = runpy.run_path(str(SCRIPT))["anonymous"]
    said = f"pci/0:\n  serial_number 12-34\n  at 02:1b:00:00:aC:01 of {platform.node()}, ok"
    assert anonymous(said) == "pci/0:\n  serial_number …\n  at xx:xx:xx:xx:xx:xx of HOST, ok"


def test_the_gate_of_a_looped_port_is_measured(looped_ports, report):
    before = state_of("loop1")
    measured = report("--looped", *looped_ports)["looped"]
    in_software = measured["software"]
    assert in_software["received"] == in_software["sent"]
    shut = in_software["by 50000 ns of the cycle"][10:]
    assert shut == [0] * 10
    half_ns = in_software["shortest part of the cycle with 99 % of them"]["length_ns"]
    assert 400_000 < half_ns < 500_000
    assert in_software["phase of those that waited"]["max_ns"] < 50_000
    assert measured["hardware"] == {"refused": NO_OFFLOAD}
    assert state_of("loop1") == before


@pytest.fixture
def looped_ports(ports):
    """Two ports of this machine with a cable between them."""
    queues = ["numtxqueues", "8", "numrxqueues", "8"]
    add = ["ip", "link", "add", "loop1", *queues, "type", "veth", "peer", "name", "loop2", *queues]
    subprocess.run(add, check=True)
    for name in ("loop1", "loop2"):
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
    return "loop1", "loop2"


@pytest.mark.parametrize("option", [["--try", "p1"], ["--looped", "p1", "p2"]])
def test_a_port_with_a_qdisc_of_its_own_is_refused(ports, tmp_path, option):
    subprocess.run(["tc", "qdisc", "add", "dev", "p1", "root", "handle", "1:", "prio"], check=True)
    before = state_of("p1")
    done = on_hardware(*option, "-o", str(tmp_path / "REPORT.tar"))
    assert done.returncode == 2
    assert "p1 has a qdisc of its own (prio): name another port, or remove it" in done.stderr
    assert state_of("p1") == before
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_not_there_is_refused(ports, tmp_path):
    done = on_hardware("--looped", "p1", "p9", "-o", str(tmp_path / "REPORT.tar"))
    assert (done.returncode, done.stderr) == (2, "on-hardware: there is no port p9\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_it_and_everything_is_restored(looped_ports, tmp_path, number, eventually):
    before = state_of("loop1")
    command = [*IN_SWITCH, "--looped", *looped_ports, "-o", tmp_path / "REPORT.tar"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
        eventually(lambda: state_of("loop1") != before)
        time.sleep(0.6)  # it measures by now
        running.send_signal(number)
        assert running.wait(timeout=60) == 128 + number
    assert state_of("loop1") == before
    assert list(tmp_path.iterdir()) == []


def test_after_an_error_everything_is_restored(ports):
    script = runpy.run_path(str(SCRIPT))
    before = state_of("p1")
    with suppress(ZeroDivisionError), script["lent"]("p1"):
        assert script["gates"]("p1", "software")["code"] == 0
        assert state_of("p1") != before
        raise ZeroDivisionError
    assert state_of("p1") == before
    assert script["left"] == []


def test_what_cannot_be_restored_is_named(ports):
    script = runpy.run_path(str(SCRIPT))
    with script["lent"]("p1"):
        subprocess.run(["ethtool", "-K", "p1", "gro", "on"], check=True)
    assert script["left"] == ["p1"]
