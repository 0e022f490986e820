"""`tsn-agent --withdraw`: a kernel without what agents have set, and with all that others have."""

from __future__ import annotations

import subprocess
import sys

from tests.stack.recording_kernel import configured

FOREIGN_TAPRIO = (
    "tc qdisc replace dev p2 parent root handle 100: taprio num_tc 2 "
    "map 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 base-time 0 "
    "sched-entry S 1 500000 sched-entry S 2 500000 clockid CLOCK_TAI"
)
FOREIGN_RULE = ("-A", "POSTROUTING", "-o", "p1", "-j", "MARK", "--set-xmark", "0x7/0xffffffff")


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def withdraw() -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agent.main", "--withdraw"],
        check=True,
        capture_output=True,
        text=True,
    )


def mangle(family: str) -> list[str]:
    saved = run(f"{family}-save", "-t", "mangle").splitlines()
    return [line for line in saved if line.startswith("-A") or "TSN" in line]


def test_withdraw_takes_back_what_is_ours_and_leaves_what_is_foreign(ports, kernel, two_classes):
    taprio = two_classes((1, 500_000), (2, 500_000))
    kernel.apply({"p1": configured("p1", taprio, {46: 1})})
    run(*FOREIGN_TAPRIO.split())
    for family in ("iptables", "ip6tables"):
        run(family, "-t", "mangle", *FOREIGN_RULE)
    foreign_qdisc = kernel.read()["p2"].foreign_qdisc
    assert "taprio 7a0:" in run("tc", "qdisc", "show", "dev", "p1")
    assert any("TSN-CLASSIFY" in line for line in mangle("ip6tables"))

    said = withdraw().stderr

    assert "port p1: remove the schedule" in said
    assert "taprio" not in run("tc", "qdisc", "show", "dev", "p1")
    assert foreign_qdisc == "taprio 100:"
    assert kernel.read()["p2"].foreign_qdisc == foreign_qdisc
    for family in ("iptables", "ip6tables"):
        assert mangle(family) == [" ".join(FOREIGN_RULE)]


def test_withdraw_from_a_switch_without_anything_of_ours_does_nothing(ports, kernel):
    run(*FOREIGN_TAPRIO.split())

    assert "port" not in withdraw().stderr

    assert kernel.read()["p2"].foreign_qdisc == "taprio 100:"
