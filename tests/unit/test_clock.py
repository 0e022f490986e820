"""PTP instances: from the configured tree to ptp4l's file, from its answers to the data sets."""

from __future__ import annotations

import pytest

from agent.composition import Contribution
from agent.datastore.desired import desired_ports
from agent.kernel.ptp_management import (
    CurrentDataSet,
    DefaultDataSet,
    GptpPort,
    ParentDataSet,
    PortDataSet,
    TimePropertiesDataSet,
)
from agent.mechanisms import MECHANISMS
from agent.mechanisms.clock import report, rules
from agent.memory_ports import MemoryPorts, rehearsal_ports
from agent.model import AgentError
from agent.ptp_daemons import files
from agent.ptp_daemons.files import Daemon, management_domain
from agent.ptp_daemons.model import (
    ClockConfig,
    ClockState,
    Instance,
    InstancePort,
    InstanceReport,
    Membership,
    Servo,
    TimeStamping,
)
from agent.switch import Switch

IDENTITY = bytes.fromhex("020000fffe000001")


def tree(*instances):
    return {"ieee1588-ptp-tt:ptp": {"instances": {"instance": list(instances)}}}


def instance(index=0, ports=("p1",), port_ds=None, ptp4l=None, **default_ds):
    rows = [
        {"port-index": number, "underlying-interface": name, "port-ds": port_ds or {}}
        for number, name in enumerate(ports, start=1)
    ]
    return {
        "instance-index": index,
        "default-ds": {name.replace("_", "-"): value for name, value in default_ds.items()},
        "ports": {"port": rows},
        "tsn-linux:ptp4l": ptp4l or {},
    }


def daemon_of(node, stamping=TimeStamping.SOFTWARE):
    desired = desired_ports(tree(node), {})
    ports = tuple((name, config[ClockConfig].instances[0]) for name, config in desired.items())
    return Daemon(ports[0][1].instance, stamping, ports)


def options(content):
    """The options of each section of ptp4l's file."""
    sections = {}
    for line in content.decode().splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            name, _, value = line.partition(" ")
            section[name] = value
    return sections


def test_an_instance_that_states_nothing_has_the_profile_of_gptp():
    sections = options(files.encode(daemon_of(instance(ports=("p1", "p2")))))

    assert list(sections) == ["global", "p1", "p2"]
    assert sections["global"] == {
        "time_stamping": "software",
        "domainNumber": "0",
        "priority1": "246",
        "priority2": "248",
        "socket_priority": "7",
        "network_transport": "L2",
        "delay_mechanism": "P2P",
        "transportSpecific": "0x1",
        "ptp_dst_mac": "01:80:C2:00:00:0E",
        "logAnnounceInterval": "0",
        "logSyncInterval": "-3",
        "syncReceiptTimeout": "3",
        "path_trace_enabled": "1",
        "follow_up_info": "1",
        "assume_two_step": "1",
        "neighborPropDelayThresh": "20000000",
        "min_neighbor_prop_delay": "-20000000",
    }
    assert sections["p1"] == sections["p2"] == {}


def test_what_is_configured_of_an_instance_is_in_the_file():
    node = instance(
        domain_number=20,
        sdo_id=0,
        priority1=1,
        priority2=2,
        time_receiver_only=True,
        max_steps_removed=9,
        ptp4l={
            "free-running": True,
            "servo": {
                "proportional-constant": "0.700000",
                "integral-constant": "0.3",
                "first-step-threshold": 20_000,
                "step-threshold": 1_500_000_001,
            },
        },
    )

    assert (
        options(files.encode(daemon_of(node)))["global"].items()
        >= {
            "domainNumber": "20",
            "delay_mechanism": "E2E",
            "priority1": "1",
            "priority2": "2",
            "slaveOnly": "1",
            "maxStepsRemoved": "9",
            "free_running": "1",
            "pi_proportional_const": "0.7",
            "pi_integral_const": "0.3",
            "first_step_threshold": "0.000020000",
            "step_threshold": "1.500000001",
        }.items()
    )


def test_what_is_configured_of_a_port_is_in_its_section():
    port_ds = {
        "log-announce-interval": -1,
        "announce-receipt-timeout": 4,
        "log-sync-interval": -5,
        "log-min-delay-req-interval": 1,
        "log-min-pdelay-req-interval": 2,
        "delay-mechanism": "e2e",
        "delay-asymmetry": str(-25 * 65536),
        "time-transmitter-only": True,
        "ieee802-dot1as-gptp:mean-link-delay-thresh": str(800 * 65536),
        "ieee802-dot1as-gptp:neg-mean-link-delay-thresh": str(-65536),
        "ieee802-dot1as-gptp:sync-receipt-timeout": 7,
    }

    assert options(files.encode(daemon_of(instance(port_ds=port_ds))))["p1"] == {
        "logAnnounceInterval": "-1",
        "announceReceiptTimeout": "4",
        "logSyncInterval": "-5",
        "logMinDelayReqInterval": "1",
        "logMinPdelayReqInterval": "2",
        "delay_mechanism": "E2E",
        "delayAsymmetry": "-25",
        "masterOnly": "1",
        "neighborPropDelayThresh": "800",
        "min_neighbor_prop_delay": "-1",
        "syncReceiptTimeout": "7",
    }


def test_with_hardware_stamps_links_are_short_and_each_port_may_have_a_clock():
    found = options(files.encode(daemon_of(instance(), TimeStamping.HARDWARE)))["global"]

    assert found["time_stamping"] == "hardware"
    assert found["neighborPropDelayThresh"] == "800"
    assert found["boundary_clock_jbod"] == "1"


def test_a_clock_that_never_transmits_time_is_not_capable_of_being_grandmaster():
    found = options(files.encode(daemon_of(instance(time_receiver_only=True))))["global"]

    assert found["gmCapable"] == "0"
    assert "slaveOnly" not in found


def test_an_instance_that_is_not_enabled_asks_nothing_of_its_ports():
    assert desired_ports(tree(instance(instance_enable=False)), {}) == {}


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (instance(domain_number=128), "PTP instance 0: domain-number is 128; ptp4l takes 0 to 127"),
        (
            instance(port_ds={"announce-receipt-timeout": 1}),
            "port 1 of PTP instance 0: announce-receipt-timeout is 1; ptp4l takes 2 to 255",
        ),
        (
            instance(port_ds={"delay-asymmetry": "98304"}),
            "port 1 of PTP instance 0: delay-asymmetry is 1.5 ns; ptp4l takes whole nanoseconds",
        ),
        (
            instance(port_ds={"ieee802-dot1as-gptp:neg-mean-link-delay-thresh": "65536"}),
            "neg-mean-link-delay-thresh in ns is 1; ptp4l takes -2147483647 to -1",
        ),
    ],
)
def test_a_value_that_ptp4l_does_not_take_is_refused_with_its_place(node, reason):
    with pytest.raises(AgentError) as refusal:
        desired_ports(tree(node), {})

    assert str(refusal.value).startswith("port p1: ")
    assert reason in str(refusal.value)


@pytest.fixture
def switch():
    return Switch(MemoryPorts(MECHANISMS, rehearsal_ports(["p1", "p2"])))


def apply(switch, *instances):
    return switch.apply(desired_ports(tree(*instances), switch.read()))


def test_instances_come_change_and_go_and_the_same_ones_change_nothing(switch):
    first = apply(switch, instance(ports=("p1", "p2")))
    assert [change.port for change in first.changes] == ["p1", "p2"]
    assert not apply(switch, instance(ports=("p1", "p2"))).steps

    changed = apply(switch, instance(ports=("p1", "p2"), priority1=1))
    assert len(changed.steps) == 1
    changed.undo()
    assert not apply(switch, instance(ports=("p1", "p2"))).steps

    assert apply(switch).steps
    assert all(state[ClockState] == ClockState() for state in switch.read().values())


def test_one_instance_sets_the_clock_and_others_may_measure(switch):
    with pytest.raises(AgentError, match="PTP instances 0 and 5 would both set the clock"):
        apply(switch, instance(0), instance(5, ports=("p2",), domain_number=1))

    measuring = instance(5, domain_number=1, ptp4l={"free-running": True})
    assert apply(switch, instance(0), measuring).steps
    assert len(switch.read()["p1"][ClockState].memberships) == 2


def test_two_instances_of_one_domain_at_a_port_are_refused(switch):
    with pytest.raises(AgentError, match="port p1: PTP instances 0 and 5 are both in domain 0"):
        apply(switch, instance(0), instance(5, ptp4l={"free-running": True}))


def test_a_file_is_read_as_what_it_was_made_from():
    node = instance(ports=("p1", "p2"), port_ds={"log-sync-interval": -4}, ptp4l={"servo": {}})
    daemon = daemon_of(node)

    assert files.decode(files.encode(daemon)) == daemon


def test_a_file_that_somebody_has_edited_is_none_of_ours():
    content = files.encode(daemon_of(instance()))

    with pytest.raises(ValueError, match="edited"):
        files.decode(content.replace(b"priority1 246", b"priority1 1"))


def test_the_profile_decides_whom_ptp4l_answers():
    assert management_domain(Instance(0, 7, 256, 1, 1)) == (1, 7)
    assert management_domain(Instance(0, 7, 0, 1, 1)) == (0, 7)


def reported(found):
    port = InstancePort(Instance(3, 0, 256, 246, 248, servo=Servo()), 1)
    member = Membership(port, 1, TimeStamping.SOFTWARE, found)
    (state,) = rehearsal_ports(["p1"])
    node = report.instances([state.with_part(ClockState((member,)))])
    (only,) = node["ieee1588-ptp-tt:ptp"]["instances"]["instance"]
    return only


def test_what_a_daemon_answers_is_in_the_data_sets():
    shown = reported(
        InstanceReport(
            DefaultDataSet(1, 1, 246, 248, 0xFE, 0xFFFF, 248, IDENTITY, 0),
            CurrentDataSet(2, -65536, 1000 * 65536),
            ParentDataSet(IDENTITY, 2, 1, 6, 0x21, 100, 2, IDENTITY),
            TimePropertiesDataSet(37, 0b001100, 0x20),
            {1: PortDataSet(IDENTITY, 1, 9, 0, 65536, 0, 3, -3, 2, 0)},
            {1: GptpPort(1, 800, 1)},
        )
    )

    identity = "02-00-00-FF-FE-00-00-01"
    assert (
        shown["default-ds"].items()
        >= {
            "clock-identity": identity,
            "time-receiver-only": False,
            "ieee802-dot1as-gptp:gm-capable": True,
            "clock-quality": {
                "clock-class": "ieee1588-ptp-tt:cc-default",
                "offset-scaled-log-variance": 0xFFFF,
            },
        }.items()
    )
    assert shown["current-ds"] == {
        "steps-removed": 2,
        "offset-from-time-transmitter": "-65536",
        "mean-delay": "65536000",
    }
    assert shown["parent-ds"]["grandmaster-identity"] == identity
    assert shown["parent-ds"]["grandmaster-clock-quality"] == {
        "clock-class": "ieee1588-ptp-tt:cc-primary-sync",
        "clock-accuracy": "ieee1588-ptp-tt:ca-time-accurate-to-100-ns",
        "offset-scaled-log-variance": 100,
    }
    assert (
        shown["time-properties-ds"].items()
        >= {
            "current-utc-offset": 37,
            "ptp-timescale": True,
            "leap61": False,
            "time-source": "ieee1588-ptp-tt:gnss",
        }.items()
    )
    (port,) = shown["ports"]["port"]
    assert (
        port["port-ds"].items()
        >= {
            "port-state": "time-receiver",
            "mean-link-delay": "65536",
            "delay-mechanism": "p2p",
            "ieee802-dot1as-gptp:as-capable": True,
        }.items()
    )


def test_a_daemon_that_does_not_run_is_shown_with_its_reason_and_without_data_sets():
    shown = reported(InstanceReport(failure="ended by SIGKILL"))

    assert shown["tsn-linux:ptp4l"]["failure"] == "ended by SIGKILL"
    assert "default-ds" not in shown
    assert shown["ports"]["port"] == [{"port-index": 1, "underlying-interface": "p1"}]


def test_values_that_the_standard_reserves_are_left_out():
    shown = reported(
        InstanceReport(
            DefaultDataSet(0, 1, 1, 99, 0x16, 0, 1, IDENTITY, 0),
            time_properties=TimePropertiesDataSet(37, 0, 0x77),
            ports={1: PortDataSet(IDENTITY, 1, 10, 0, 0, 0, 3, 0, 77, 0)},
        )
    )

    assert shown["default-ds"]["clock-quality"] == {"offset-scaled-log-variance": 0}
    assert not {"time-source", "current-utc-offset"} & shown["time-properties-ds"].keys()
    assert not {"port-state", "delay-mechanism"} & shown["ports"]["port"][0]["port-ds"].keys()


def test_ports_of_one_instance_change_together():
    one, other = (InstancePort(Instance(0, 0, 256, p, 248), 1) for p in (1, 2))
    contributions = [
        Contribution(rules.NAME, name, 0, ClockConfig((port,)))
        for name, port in (("p1", one), ("p2", other))
    ]

    (problem, *_) = rules.DAEMONS.problems(contributions)
    assert problem == "PTP instance 0: the ports p1, p2 are to change together"
