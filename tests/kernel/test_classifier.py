"""DSCP rules in the mangle table, with every way to the tables and for both IP versions."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import socket
import subprocess
import sys

import pytest
from pyroute2 import IPRoute

from agent.kernel.ports import KernelPorts
from agent.mechanisms import MECHANISMS
from agent.mechanisms.classification import CLASSIFICATION
from agent.mechanisms.classification.classifier import Classifier, choose
from agent.mechanisms.classification.iptables_restore import Flavour, RestoreTables
from agent.mechanisms.classification.kernel import RuleAdapter
from agent.model import AgentError
from agent.switch import Switch
from tests.stack.recording_kernel import configured

GATES = next(each for each in MECHANISMS if each.name == "gates")
FAMILIES = ("iptables", "ip6tables")
NETLINK_NETFILTER, NFNLGRP_NFTABLES = 12, 7  # linux/netlink.h, linux/netfilter/nfnetlink.h
RULES = {"p1": {0: 10, 46: 7, 63: 3}, "p2": {16: 5}}
EXPECTED = {
    "-A TSN-CLASSIFY -o p1 -m dscp --dscp 0x00 -j CLASSIFY --set-class 0000:000a",
    "-A TSN-CLASSIFY -o p1 -m dscp --dscp 0x2e -j CLASSIFY --set-class 0000:0007",
    "-A TSN-CLASSIFY -o p1 -m dscp --dscp 0x3f -j CLASSIFY --set-class 0000:0003",
    "-A TSN-CLASSIFY -o p2 -m dscp --dscp 0x10 -j CLASSIFY --set-class 0000:0005",
    "-A POSTROUTING -j TSN-CLASSIFY",
}
FOREIGN = (
    "-A POSTROUTING -o p1 -m dscp --dscp 0x2e -j CLASSIFY --set-class 0001:0002",
    "-A POSTROUTING -o p2",
)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def tool(classifier, family):
    return f"{family}-{classifier.name.removeprefix('iptables-')}"


def rules_shown(classifier, family):
    shown = run(f"{tool(classifier, family)}-save", "-t", "mangle").splitlines()
    return [line for line in shown if line.startswith("-A")]


def add(classifier, family, rule):
    run(tool(classifier, family), "-t", "mangle", *rule.split())


def test_each_rule_is_there_once_after_three_applies_and_foreign_rules_survive(classifier):
    for family in FAMILIES:
        for rule in FOREIGN:
            add(classifier, family, rule)
    for _ in range(3):
        classifier.apply(RULES)
    for family in FAMILIES:
        shown = rules_shown(classifier, family)
        assert sorted(shown) == sorted([*EXPECTED, *FOREIGN])
        assert [rule for rule in shown if rule in FOREIGN] == list(FOREIGN)
    assert classifier.read() == RULES


def test_nothing_desired_leaves_nothing_of_ours(classifier):
    for family in FAMILIES:
        add(classifier, family, FOREIGN[0])
    classifier.apply(RULES)
    classifier.apply({})
    for family in FAMILIES:
        shown = run(f"{tool(classifier, family)}-save", "-t", "mangle")
        assert "TSN-CLASSIFY" not in shown
        assert FOREIGN[0] in shown


def test_a_disturbed_chain_is_repaired(classifier):
    classifier.apply(RULES)
    add(classifier, "iptables", "-A POSTROUTING -j TSN-CLASSIFY")
    add(classifier, "ip6tables", "-I TSN-CLASSIFY -j RETURN")
    add(classifier, "ip6tables", "-D POSTROUTING -j TSN-CLASSIFY")
    assert classifier.read() == {}, "not in force for IPv6 is not in force"
    classifier.apply(RULES)
    for family in FAMILIES:
        assert sorted(rules_shown(classifier, family)) == sorted(EXPECTED)


def send(port_number, dscp, count=1):
    """UDP from this namespace's own stack out of p1, over IPv4 and IPv6."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ipv4:
        ipv4.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
        for _ in range(count):
            ipv4.sendto(b"x", (f"10.0.{port_number}.2", 5000))
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as ipv6:
        ipv6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, dscp << 2)
        for _ in range(count):
            ipv6.sendto(b"x", (f"fd00:{port_number}::2", 5000))


def test_the_same_rules_again_keep_their_counters(classifier):
    """A rule that was written anew would count from zero."""
    classifier.apply({"p1": {46: 1}})
    send(1, 46)
    classifier.apply({"p1": {46: 1}})
    for family in FAMILIES:
        shown = run(f"{tool(classifier, family)}-save", "-c", "-t", "mangle")
        assert "[1:" in next(line for line in shown.splitlines() if "--dscp 0x2e" in line)


def drained(events):
    """The messages that wait."""
    messages = []
    with contextlib.suppress(BlockingIOError):
        while message := events.recv(65536):
            messages.append(message)
    return messages


@pytest.mark.usefixtures("ports")
def test_the_same_rules_again_cause_no_nftables_event():
    classifier = Classifier(RestoreTables(Flavour.NFT))
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as events:
        events.bind((0, 1 << (NFNLGRP_NFTABLES - 1)))
        events.setblocking(False)
        classifier.apply(RULES)
        assert drained(events)
        classifier.apply(RULES)
        assert not drained(events)


def test_when_the_second_family_is_refused_the_first_is_set_back(classifier, monkeypatch):
    classifier.apply({"p1": {46: 1}})
    write = classifier._tables.write

    def refuse_ipv6(family, old, rules):
        if family == "ip6tables":
            raise AgentError("ip6tables: refused")
        write(family, old, rules)

    monkeypatch.setattr(classifier._tables, "write", refuse_ipv6)
    with pytest.raises(AgentError, match="refused"):
        classifier.apply(RULES)
    assert classifier.read() == {"p1": {46: 1}}


@pytest.mark.usefixtures("ports")
def test_the_flavour_of_the_systems_own_iptables_is_chosen():
    flavour = "legacy" if "legacy" in run("iptables", "--version") else "nft"
    assert choose().name == f"iptables-{flavour}"


@pytest.mark.usefixtures("ports")
def test_without_python_iptables_the_legacy_tools_serve_and_the_reason_is_logged(
    monkeypatch, caplog
):
    monkeypatch.setattr(
        "agent.mechanisms.classification.classifier._system_is_legacy", lambda: True
    )
    monkeypatch.setitem(sys.modules, "iptc", None)
    with caplog.at_level(logging.INFO):
        assert choose().name == "iptables-legacy"
    assert "python-iptables does not load" in caplog.text


@pytest.mark.usefixtures("ports")
def test_a_missing_tool_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(AgentError, match="iptables-nft-restore is not installed"):
        RestoreTables(Flavour.NFT)


def packets_by_class(port):
    """Packets each TX queue of taprio sent; queue i serves class i here."""
    with IPRoute() as ipr:
        index = ipr.link_lookup(ifname=port)[0]
        classes = ipr.get_classes(index=index)
        return {
            (message["handle"] & 0xFFFF) - 1: message.get("TCA_STATS2").get("TCA_STATS_BASIC")[
                "packets"
            ]
            for message in classes
        }


def classifying_with(classifier) -> Switch:
    """The product's switch, with this back end instead of the one that it would choose."""
    own = dataclasses.replace(CLASSIFICATION, kernel=lambda _ipr: RuleAdapter(classifier))
    return Switch(KernelPorts([GATES, own]))


@pytest.mark.reference
@pytest.mark.parametrize(("dscp", "class_"), [(46, 1), (45, 0), (0, 0)])
def test_frames_leave_in_the_class_of_their_dscp(classifier, two_classes, eventually, dscp, class_):
    kernel = classifying_with(classifier)
    taprio = two_classes((0x3, 1_000_000))
    kernel.apply({"p1": configured("p1", taprio, {46: 1})})
    before = packets_by_class("p1")
    send(1, dscp, count=10)
    eventually(lambda: sum(packets_by_class("p1").values()) - sum(before.values()) >= 20)
    after = packets_by_class("p1")
    assert after[class_] - before[class_] >= 20
    assert after[1 - class_] == before[1 - class_]
    kernel.ports.close()


def test_undo_restores_the_old_rules(classifier):
    kernel = classifying_with(classifier)
    kernel.apply({"p1": configured("p1", None, {46: 1})})
    applied = kernel.apply({"p2": configured("p2", None, {16: 5})})
    assert classifier.read() == {"p2": {16: 5}}
    applied.undo()
    assert classifier.read() == {"p1": {46: 1}}
    kernel.ports.close()


def test_what_somebody_else_changes_between_two_reads_is_seen(classifier):
    classifier.apply(RULES)
    assert classifier.read() == RULES
    assert classifier.read() == RULES
    for family in FAMILIES:
        run(tool(classifier, family), "-t", "mangle", "-F", "TSN-CLASSIFY")
    assert classifier.read() == {}
