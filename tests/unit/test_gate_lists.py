"""Gate control lists of other programs' files, and the way back."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from cnc import cli, gate_lists
from cnc import intent as intents
from cnc.errors import InputError
from cnc.gate_lists import netconf, table, tc
from cnc.gate_lists.listed import Listed
from cnc.mechanisms.gates.given import GivenLists, operative
from cnc.model import GateControlList, GateEntry, GateMode, PortConfiguration, PortRef
from cnc.planner import plan
from tests.intent_documents import LINE3

ENTRIES = (GateEntry(0x81, 300_000), GateEntry(0x7F, 700_000))
LISTED = Listed("eth0", 1_000_000, ENTRIES)
LISTS = st.lists(
    st.builds(GateEntry, st.integers(0, 255), st.integers(1, 10**6)), min_size=1, max_size=20
).map(lambda its: GateControlList(sum(e.interval_ns for e in its), tuple(its)))


def read(text: str, name: str = "file.txt") -> Listed:
    [found] = gate_lists.read(text.encode(), name)
    return found


def as_listed(gates: GateControlList) -> Listed:
    return Listed("eth0", gates.cycle_ns, gates.entries)


def test_a_command_of_a_script_is_read_with_what_the_script_sets() -> None:
    script = """#!/bin/bash
# tc qdisc replace dev eth9 parent root taprio sched-entry S 01 1
IFACE=eth0
CYCLE=1000000  # ns
sudo tc qdisc replace dev ${IFACE} parent root handle 100 taprio \\
    num_tc 3 map 2 2 1 0 2 2 2 2 2 2 2 2 2 2 2 2 \\
    queues 1@0 1@1 2@2 \\
    base-time 1000100000 cycle-time $CYCLE \\
    sched-entry S 81 300000 \\
    sched-entry S 0x7f 700000 \\
    clockid CLOCK_TAI flags 0x2; echo done
"""
    found = read(script)
    assert (found.port, found.cycle_ns, found.entries) == ("eth0", 1_000_000, ENTRIES)
    assert found.base_offset_ns == 100_000
    classes, flags = found.remarks
    assert classes == (
        "its traffic classes: 0 has priority 3; 1 has priority 2; 2 has priority 0, 1, 4, 5, 6, 7. "
        "Those of the intent's classes decide"
    )
    assert flags == "flags 0x2: state `gates: full-offload` of the switch"


def test_a_base_time_that_the_script_computes_is_told_and_left_out() -> None:
    found = read(
        "BASE=$(date +%s)\n"
        "tc qdisc add dev eth0 root taprio base-time ${BASE}000000000 sched-entry S 81 300000 "
        "sched-entry S 7f 700000\n"
    )
    assert found.base_offset_ns == 0
    assert found.remarks == (
        "its base-time ${BASE}000000000 is known when the script runs: no offset is taken",
    )


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        ("dev $1 root taprio sched-entry S 1 5", "found the device $1, expected the name of the"),
        ("root taprio sched-entry S 1 5", "found a command without dev"),
        ("dev e root taprio sched-entry H 1 5", "found the operation H, expected S: no plan"),
        ("dev e root taprio sched-entry S zz 5", "found the mask 'zz', expected a whole number"),
        ("dev e root taprio sched-entry S 1", "found sched-entry S 1, expected sched-entry S MASK"),
        ("dev e root taprio sched-entry S 100 5", "found gate states 0x100, expected 0x00 to 0xff"),
        ("dev e root taprio sched-entry S 1 0", "found an interval of 0 ns, expected 1 ns to"),
        ("dev e root taprio speed 5", "found 'speed', expected a parameter of taprio: base-time"),
        ("dev e root taprio num_tc 3", "found no entries, expected at least one"),
        ("dev e root taprio 'open", "found a command without end (No closing quotation)"),
    ],
)
def test_what_no_intent_can_say_is_refused_with_its_line(command: str, refused: str) -> None:
    with pytest.raises(InputError) as error:
        read(f"set -e\ntc qdisc replace {command}\n", "up.sh")
    assert str(error.value).startswith("up.sh:2: ")
    assert refused in str(error.value)


def test_entries_of_tsntool_are_read() -> None:
    found = read("# qbv0.txt\nt0 10000001b 300000\nt1 01111111 700000  # the rest\n")
    assert found == Listed(None, 1_000_000, ENTRIES)


def test_entries_of_tsntool_out_of_order_are_refused() -> None:
    with pytest.raises(InputError, match=r"qbv0.txt:2: found 't2 01111111b 5', expected t1, eight"):
        read("t0 10000001b 300000\nt2 01111111b 5\n", "qbv0.txt")


def test_a_table_names_port_cycle_and_offset_or_leaves_them_out() -> None:
    full = (
        "port,cycle_ns,base_offset_ns,gate_states,interval_ns\n"
        "s1/eth0,2000000,500,0x81,300000\n"
        "s1/eth0,2000000,500,01111111,700000\n"
        "s2/eth1,,,0xff,5000\n"
    )
    assert gate_lists.read(full.encode(), "solved.csv") == [
        Listed("s1/eth0", 2_000_000, ENTRIES, 500),
        Listed("s2/eth1", 5_000, (GateEntry(0xFF, 5_000),)),
    ]
    short = "gate_states,interval_ns\n0x81,300000\n0x7f,700000\n"
    assert read(short, "solved.csv") == Listed(None, 1_000_000, ENTRIES)


@pytest.mark.parametrize(
    ("rows", "refused"),
    [
        ("gates,interval_ns\n", ":1: found the columns gates, interval_ns, expected port, cycle_"),
        ("gate_states,interval_ns\n", ": found no rows, expected one for each entry"),
        ("gate_states,interval_ns\n81,5\n", ":2: found gate states '81', expected a mask such as"),
        ("gate_states,interval_ns\n0x81\n", ":2: found a row of another length, expected a value"),
        (
            "cycle_ns,gate_states,interval_ns\n5,0x01,5\n6,0x01,5\n",
            ":3: found another cycle or offset of , expected those of its first row",
        ),
    ],
)
def test_a_table_with_something_else_is_refused_with_its_line(rows: str, refused: str) -> None:
    with pytest.raises(InputError) as error:
        read(rows, "solved.csv")
    assert f"solved.csv{refused}" in str(error.value)


OF_2018 = """<?xml version="1.0"?>
<interfaces xmlns="urn:ietf:params:xml:ns:yang:ietf-interfaces">
  <interface>
    <name>sw0p2</name>
    <gate-parameters xmlns="urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched">
      <gate-enabled>true</gate-enabled>
      <admin-control-list-length>2</admin-control-list-length>
      <admin-control-list>
        <index>1</index>
        <operation-name>set-gate-states</operation-name>
        <sgs-params>
          <gate-states-value>127</gate-states-value>
          <time-interval-value>700000</time-interval-value>
        </sgs-params>
      </admin-control-list>
      <admin-control-list>
        <index>0</index>
        <operation-name>set-gate-states</operation-name>
        <sgs-params>
          <gate-states-value>129</gate-states-value>
          <time-interval-value>300000</time-interval-value>
        </sgs-params>
      </admin-control-list>
      <admin-cycle-time><numerator>1</numerator><denominator>800</denominator></admin-cycle-time>
      <admin-base-time><seconds>0</seconds><fractional-seconds>0</fractional-seconds></admin-base-time>
    </gate-parameters>
  </interface>
</interfaces>
"""


def test_gate_parameters_of_2018_are_read_by_their_indices() -> None:
    assert read(OF_2018) == Listed("sw0p2", 1_250_000, ENTRIES)


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (("<fractional-seconds>0", "<fractional-seconds>7"), "found fractional-seconds 7, expec"),
        (("<denominator>800", "<denominator>0"), "found a cycle of 1/0 s, expected whole nano"),
        (("<denominator>800", "<denominator>3"), "found a cycle of 1/3 s, expected whole nanos"),
        (("<numerator>1<", "<numerator>875000<"), "found a cycle of 1093750000000 ns, expected 1"),
        (("set-gate-states", "set-and-hold-mac"), "found the operation set-and-hold-mac, expec"),
        (("<index>1</index>", ""), "found no index, expected one"),
        (("</interfaces>", ""), "found no XML: "),
    ],
)
def test_gate_parameters_that_no_port_can_have_are_refused(
    change: tuple[str, str], refused: str
) -> None:
    with pytest.raises(InputError) as error:
        read(OF_2018.replace(*change, 1))
    assert refused in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "gate_states," + "x" * 300_000,
        "gate_states,interval_ns\n0x01," + "9" * 200_000,
        "gate_states,interval_ns\n0x01," + "9" * 5_000,
        "tc qdisc add dev e root taprio base-time " + "9" * 5_000 + " sched-entry S 1 5",
        "t" + "9" * 5_000 + " 00000001b 5",
    ],
    ids=lambda text: text[:12],
)
def test_a_value_without_end_is_refused_in_a_short_message(text: str) -> None:
    with pytest.raises(InputError) as error:
        gate_lists.read(text.encode(), "solved.csv")
    assert len(str(error.value)) < 1_200


@pytest.mark.parametrize("text", ["", "hello", "<a/>", "tc taprio", "\xff"])
def test_a_file_without_a_list_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        gate_lists.read(text.encode("latin-1"), "file")


@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(str.encode),
        st.text("tc qdisapro-evb0123456789x\\\n$\"';", max_size=200).map(
            lambda its: f"tc qdisc add dev e root taprio {its}".encode()
        ),
        st.text("t019 b#\n,", max_size=80).map(lambda its: f"t0 00000001b 5\n{its}".encode()),
        st.text('01x,"\n\0 ', max_size=80).map(
            lambda its: f"gate_states,interval_ns\n{its}".encode()
        ),
        st.tuples(st.integers(0, len(OF_2018)), st.text("<>/&;0-9", max_size=20)).map(
            lambda its: (OF_2018[: its[0]] + its[1] + OF_2018[its[0] + len(its[1]) :]).encode()
        ),
    )
)
def test_any_octets_are_lists_or_refused(text: bytes) -> None:
    try:
        found = gate_lists.read(text, "file")
    except InputError:
        return
    assert all(each.entries and each.base_offset_ns < each.cycle_ns for each in found)


def test_entities_of_a_document_are_not_followed() -> None:
    secret = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + OF_2018.partition("?>")[2]
    with pytest.raises(InputError, match="whole number"):
        read(secret.replace("<index>0<", "<index>&x;<"))


@given(LISTS, st.sampled_from(netconf.Revision))
def test_xml_of_each_revision_is_read_as_it_was(
    gates: GateControlList, revision: netconf.Revision
) -> None:
    assert read(netconf.text({"eth0": gates}, revision)) == as_listed(gates)


@given(LISTS)
def test_a_table_is_read_as_it_was(gates: GateControlList) -> None:
    assert read(table.text([("eth0", gates)]), "x.csv") == as_listed(gates)


@given(LISTS, st.sampled_from(GateMode))
def test_a_command_is_read_as_it_was(gates: GateControlList, mode: GateMode) -> None:
    its = PortConfiguration(8, (1, 0, 2, 3, 4, 5, 6, 7), mode, gates, {})
    found = read(tc.command("eth0", its))
    assert (found.port, found.cycle_ns, found.entries) == ("eth0", gates.cycle_ns, gates.entries)
    assert found.base_offset_ns == 0


@given(st.integers(1, 10**6), LISTS, st.integers(0, 10**9))
def test_an_intent_has_the_list_of_its_fragment(
    cycle_ns: int, gates: GateControlList, base_ns: int
) -> None:
    listed = Listed("eth0", cycle_ns, gates.entries, base_ns % cycle_ns)
    text = gate_lists.fragment({PortRef("s1", "eth0"): listed})
    entries = intents.source.parse(text.encode(), "fragment").document
    its = entries["switches"]["s1"]["ports"]["eth0"]["gate-control-list"]
    assert [each["open"] for each in its["entries"]] == [e.gate_states for e in gates.entries]


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(cli.cnc, words, catch_exceptions=code == 0)
    assert (result.exit_code == 0) == (code == 0), result.output
    return result.output


def test_a_list_goes_from_a_plan_to_a_file_and_into_an_intent(tmp_path: Path) -> None:
    exported = run("export", "gates", str(LINE3), "--switch", "s2", "--format", "xml-2023")
    file = tmp_path / "s2.xml"
    file.write_text(exported)
    fragment = run("import", "gates", str(file), "--switch", "s2")
    assert fragment.startswith("switches:\n  s2:\n    ports:\n      s3:\n")
    ports = fragment.partition("    ports:\n")[2].replace("\n      ", "\n        ")
    text = LINE3.read_text().partition("\nstreams:")[0] + "\nstreams: {}\n"
    short = "s2: {management: 10.99.0.2, ports: [s1, s3]}"
    assert short in text
    own = f"s2:\n    management: 10.99.0.2\n    ports:\n        s1:\n  {ports}"
    path = tmp_path / "network.yaml"
    path.write_text(text.replace(short, own))
    given = intents.load(path)[GivenLists].by_port
    before = plan(intents.load(LINE3)).gates
    assert {port: operative(its) for port, its in given.items()} == {
        port: its for port, its in before.items() if port.node == "s2"
    }


def test_a_file_that_names_no_switch_or_port_asks_for_them(tmp_path: Path) -> None:
    file = tmp_path / "qbv0.txt"
    file.write_text("t0 10000001b 300000\n")
    with pytest.raises(InputError, match="names no port"):
        cli.cnc.main(["import", "gates", str(file)], standalone_mode=False)
    with pytest.raises(InputError, match="names no switch of port eth0"):
        cli.cnc.main(["import", "gates", str(file), "--port", "eth0"], standalone_mode=False)
    told = run("import", "gates", str(file), "--port", "eth0", "--switch", "s1")
    assert told.endswith("            - {open: 0x81, for: 300us}\n")


def test_only_a_table_has_several_switches() -> None:
    with pytest.raises(InputError, match="the lists of 3 switches do not go into one file"):
        cli.cnc.main(["export", "gates", str(LINE3), "--format", "tc"], standalone_mode=False)
    assert run("export", "gates", str(LINE3)).startswith("port,cycle_ns,base_offset_ns,gate_")
    commands = run("export", "gates", str(LINE3), "--format", "tc", "--switch", "s2")
    assert "tc qdisc replace dev s3 parent root handle 100: taprio num_tc 8 \\\n" in commands
