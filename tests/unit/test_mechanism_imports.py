"""A mechanism of the controller is known to its own folder, the registry and the judges alone.

What other modules need of all mechanisms is a hook of the contract
(docs/reference/extending-controller.md), which they call through the registry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.python_imports import REGISTRY, Package

CHECKOUT = Path(__file__).parents[2]
JUDGES = "cnc.check"

# What a judge of a mechanism imports beside its own folder: nothing that the planner, the rollout
# or another mechanism has computed.
FOR_JUDGES = re.compile(r"cnc\.(model(\..*)?|account\..*|support(\..*)?)")

# Folders of agent/mechanisms without one of the same name in cnc/mechanisms, and the reverse.
NO_CONTROLLER_SIDE = {
    "bridged_classification": "its rules are those of classification, for frames of bridges",
    "classification": "a rollout sets the DSCP rules of a port together with its gates",
    "received_priority": "forwarding sets priority-regeneration where it sets VLAN members",
    "sent_priority": "no plan needs pcp-encoding-table; preflight of forwarding reads it",
}
NO_AGENT_SIDE = {
    "cqf": "a switch has it by lists of gates, and by stream filters whose gates set priorities",
}

Imports = set[tuple[str, str]]


@pytest.fixture(scope="module")
def cnc() -> Package:
    return Package(CHECKOUT, "cnc")


def imported_mechanisms(package: Package, importers: Iterable[str]) -> Imports:
    return {
        (importer, bound.module)
        for importer in importers
        for bound in package.imports(importer)
        if package.mechanism_of(bound.module) not in {None, package.mechanism_of(importer)}
    }


def lines(imports: Imports) -> str:
    return "\n".join(f"{importer} imports {imported}" for importer, imported in sorted(imports))


def test_no_module_outside_imports_a_mechanism(cnc):
    outside = [m for m in cnc.files if not cnc.mechanism_of(m) and m not in REGISTRY]
    importers = [m for m in outside if m != JUDGES and not m.startswith(f"{JUDGES}.")]
    found = imported_mechanisms(cnc, importers)
    assert not found, (
        f"{lines(found)}\n\nNo module imports a mechanism but its own folder, the registry"
        f" ({', '.join(sorted(REGISTRY))}) and judges ({JUDGES}). What this one needs is a hook of"
        " cnc/mechanism.py: docs/reference/extending-controller.md, A mechanism on the controller."
    )


def test_no_mechanism_imports_another(cnc):
    found = imported_mechanisms(cnc, filter(cnc.mechanism_of, cnc.files))
    assert not found, f"{lines(found)}\n\nWhere mechanisms meet is cnc/mechanisms/*.py"


def test_a_judge_imports_only_what_it_may_believe(cnc):
    """Other mechanisms aside, which the test above finds."""
    judges = [m for m in cnc.files if cnc.mechanism_of(m) and m.endswith(".judge")]
    beyond = [
        f"{judge} imports {bound.module}"
        for judge in judges
        for bound in cnc.imports(judge)
        if bound.module.startswith("cnc.") and not cnc.mechanism_of(bound.module)
        if not FOR_JUDGES.fullmatch(bound.module)
    ]
    assert judges
    assert not beyond, (
        "a judge recomputes from the plan alone (docs/reference/extending-controller.md)"
    )


def test_both_sides_have_the_same_mechanisms():
    agent = _registered("agent/mechanisms")
    controller = _folders("cnc/mechanisms")
    assert agent == _folders("agent/mechanisms"), "a folder is not in the registry of the agent"
    assert agent - controller == NO_CONTROLLER_SIDE.keys(), (
        "each mechanism of the agent has a folder of its name in cnc/mechanisms, or a line in"
        " NO_CONTROLLER_SIDE that says why not"
    )
    assert controller - agent == NO_AGENT_SIDE.keys(), (
        "each mechanism of the controller has a folder of its name in agent/mechanisms, or a line"
        " in NO_AGENT_SIDE that says why not"
    )


def _registered(folder: str) -> set[str]:
    """The folders that a registry imports."""
    prefix = folder.replace("/", ".") + "."
    imported = Package(CHECKOUT, folder).imports(prefix.removesuffix("."))
    below = (b.module.removeprefix(prefix) for b in imported if b.module.startswith(prefix))
    return {name.partition(".")[0] for name in below}


def _folders(folder: str) -> set[str]:
    return {file.parent.name for file in (CHECKOUT / folder).glob("*/__init__.py")}
