"""Our modules of a standard's name have its schema: every statement and every compiled node."""

from __future__ import annotations

from pathlib import Path

import libyang
import pytest

from tests.stack.yang_facts import (
    FACTS,
    compiled_tree,
    differences,
    published,
    published_tree,
    stated,
)
from tests.stack.yang_modules import STANDARD, SYSREPO, empty_context

MODULES = sorted(file.stem for file in FACTS.glob("*.json"))
WITH_TREE = sorted(file.stem for file in FACTS.glob("*.tree"))


@pytest.fixture
def load():
    """Loads a module, and what it imports, with all features into a context of its own."""
    contexts: list[libyang.Context] = []

    def run(name: str, text: str = "") -> libyang.Module:
        context = empty_context()
        contexts.append(context)
        module = context.parse_module_str(text) if text else context.load_module(name)
        for loaded in [each for each in context if each.implemented()]:
            loaded.feature_enable_all()
        return module

    yield run
    for context in contexts:
        context.destroy()


def test_all_standard_modules_of_ieee_have_facts():
    assert MODULES == [
        "ieee1588-ptp-tt",
        "ieee802-dot1as-gptp",
        "ieee802-dot1cb-frer",
        "ieee802-dot1cb-stream-identification",
        "ieee802-dot1cb-stream-identification-types",
        "ieee802-dot1dc-sched-if",
        "ieee802-dot1q-bridge",
        "ieee802-dot1q-cnc-config",
        "ieee802-dot1q-preemption",
        "ieee802-dot1q-psfp",
        "ieee802-dot1q-psfp-bridge",
        "ieee802-dot1q-sched",
        "ieee802-dot1q-sched-bridge",
        "ieee802-dot1q-stream-filters-gates",
        "ieee802-dot1q-tsn-types",
        "ieee802-dot1q-types",
        "ieee802-types",
    ]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_states_what_the_published_one_states(name, load):
    ours, theirs = stated(load(name)), published(name)

    difference = differences(ours.pop("statements"), theirs.pop("statements"))
    assert not difference, difference
    assert ours == theirs


@pytest.mark.parametrize("name", ["ietf-interfaces", "iana-if-type"])
def test_a_module_states_what_the_one_that_sysrepo_ships_states(name, load):
    with libyang.Context(f"{SYSREPO}:{STANDARD}") as context:
        shipped = context.load_module(name)
        assert Path(shipped.filepath()).is_relative_to(SYSREPO)
        theirs = stated(shipped)
    ours = stated(load(name))

    difference = differences(ours.pop("statements"), theirs.pop("statements"))
    assert not difference, difference
    assert ours == theirs


@pytest.mark.parametrize("name", [n for n in WITH_TREE if not n.endswith("-types")])
def test_a_module_compiles_to_the_published_tree(name, load):
    module = load(name)

    difference = differences(compiled_tree(module.context, name), published_tree(name))
    assert not difference, difference


@pytest.mark.parametrize("name", [n for n in WITH_TREE if n.endswith("-types")])
def test_a_grouping_compiles_to_the_published_tree(name, load):
    groupings = [
        path.removeprefix("/grouping:")
        for path, facts in published(name)["statements"].items()
        if facts["kind"] == "grouping"
    ]
    uses = "".join(f"container {g} {{ uses types:{g}; }}" for g in groupings)
    user = load(
        "user",
        f"module user {{ yang-version 1.1; namespace 'urn:user'; prefix user;"
        f" import {name} {{ prefix types; }} {uses} }}",
    )

    compiled = compiled_tree(user.context, "user")

    assert [path for path in compiled if path.count("/") == 1] == [f"/{g}" for g in groupings]
    nodes = {path: facts for path, facts in compiled.items() if path.count("/") > 1}
    difference = differences(nodes, published_tree(name))
    assert not difference, difference
