"""A device profile as far as a server says what it can do."""

from __future__ import annotations

from copy import deepcopy

import pytest
from lxml import etree

from cnc.data_tree.tree import BRIDGE, INTERFACES, SCHED_BRIDGE
from cnc.keys.profile import ProfileKeys
from cnc.switch.foreign.drafted import DraftProfile, drafted
from cnc.switch.offered import CAPABILITY, Module

PLAIN = Module("2023-10-26", frozenset(), ())
MODULES = dict.fromkeys(("ieee802-dot1q-bridge", "ieee802-dot1q-sched-bridge"), PLAIN)
OLDER = {"ieee802-dot1q-sched": PLAIN}
CONFIRMED = ("candidate:1.0", "confirmed-commit:1.1", "writable-running:1.0")
NOTHING = etree.fromstring("<data/>")
TABLES = etree.fromstring(
    f'<data><interfaces xmlns="{INTERFACES}">'
    + "".join(
        f'<interface><bridge-port xmlns="{BRIDGE}"><gate-parameter-table xmlns="{SCHED_BRIDGE}">'
        f"<config-pending>false</config-pending><current-time/><supported-list-max>{entries}"
        "</supported-list-max><supported-interval-max>999999</supported-interval-max>"
        "</gate-parameter-table></bridge-port></interface>"
        for entries in (64, 16, 0)
    )
    + "</interfaces></data>"
)


def draft(
    *capabilities: str,
    modules: dict[str, Module] | None = None,
    data: etree._Element = NOTHING,
    stored: etree._Element = NOTHING,
) -> DraftProfile:
    names = [f"{CAPABILITY}{each}" for each in capabilities or CONFIRMED]
    return drafted(names, MODULES if modules is None else modules, data, stored)


def keys(its: DraftProfile) -> dict[str, object]:
    assert its.keys
    return dict(its.keys)


@pytest.mark.parametrize(
    ("capabilities", "commit"),
    [
        (CONFIRMED, "confirmed"),
        (("candidate:1.0", "confirmed-commit:1.0"), "candidate"),
        (("writable-running:1.0",), "running"),
    ],
)
def test_the_safest_way_to_take_a_change_is_drafted(
    capabilities: tuple[str, ...], commit: str
) -> None:
    its = draft(*capabilities)
    assert keys(its)["commit"] == commit
    assert any("does not revert by itself" in each for each in its.remarks) == (
        commit != "confirmed"
    )


def test_the_older_tree_is_drafted_where_the_newer_one_is_not() -> None:
    assert keys(draft(modules=OLDER))["gates-tree"] == "ieee802-dot1q-sched"
    assert keys(draft(modules=OLDER | MODULES))["gates-tree"] == "ieee802-dot1q-sched-bridge"


def test_a_switch_without_gates_gets_no_profile() -> None:
    its = draft(modules={"ietf-interfaces": PLAIN})
    assert its.keys is None
    assert any("nothing here sets its gates" in each for each in its.remarks)


def test_what_ports_report_is_drafted_with_the_least_of_their_limits() -> None:
    its = keys(draft(*CONFIRMED, "startup:1.0", data=TABLES))
    assert its["gate-entries-max"] == 16
    assert its["gate-interval-max"] == "999999ns"
    assert {"reads-back", "reports-clock", "has-startup", "forwards"} <= its.keys()
    assert "writes-limits" not in its


def test_limits_are_written_where_no_port_reports_them() -> None:
    assert keys(draft())["writes-limits"] is True
    assert "writes-limits" not in keys(draft(modules=OLDER))


def test_limits_that_are_configured_are_those_of_a_rollout() -> None:
    its = keys(draft(data=deepcopy(TABLES), stored=TABLES))
    assert its["writes-limits"] is True
    assert "gate-entries-max" not in its


def test_modules_that_deviate_are_named() -> None:
    deviating = Module("2023-10-26", frozenset(), ("maker-deviations",))
    remarks = draft(modules=MODULES | {"ieee802-dot1q-sched-bridge": deviating}).remarks
    assert "deviates from ieee802-dot1q-sched-bridge by maker-deviations: read what it lacks" in (
        remarks
    )


@pytest.mark.parametrize("data", [NOTHING, TABLES], ids=["no state", "state"])
def test_a_draft_is_a_profile_by_the_schema(data: etree._Element) -> None:
    assert ProfileKeys.model_validate(keys(draft(data=data))).value().name == "drafted"
