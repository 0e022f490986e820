"""What a change makes run."""

from __future__ import annotations

import pytest

from tests.runner import changed, table


def picked(*paths: str) -> set[str]:
    return {lane.name for lane in changed.lanes(table.load(), paths)[0]}


def test_linters_and_unit_tests_always_run():
    assert picked() == {"lint", "unit"}


def test_a_changed_test_runs_with_its_lane():
    assert "dask" in picked("tests/stack/test_dask.py")


def test_a_file_whose_tests_are_in_several_lanes_runs_all_of_them():
    lanes = picked("tests/kernel/test_taprio_gates.py")
    assert {"kernel-core", "debian"} <= lanes


def test_a_changed_role_runs_the_playbooks_and_no_fuzzer():
    lanes = picked("scripts/ansible/roles/switch/tasks/main.yml")
    assert {"boot-core", "ansible", "ansible-lint"} <= lanes
    assert "fuzz" not in lanes


def test_a_page_runs_its_commands_and_no_kernel():
    lanes = picked("docs/operate/rollout.md")
    assert "docs" in lanes
    assert not any(name.startswith("kernel") for name in lanes)


def test_a_path_that_no_lane_names_runs_all_lanes_and_is_named():
    everything = table.load()
    lanes, unnamed = changed.lanes(everything, ["surprise.txt", "docs/operate/rollout.md"])
    assert unnamed == ["surprise.txt"]
    assert lanes == list(everything.lanes.values())


def test_a_reference_that_git_does_not_know_is_refused():
    with pytest.raises(changed.NoSuchReference, match="no-such-reference"):
        changed.paths("no-such-reference")
