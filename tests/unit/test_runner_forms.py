"""Which lanes each form of `scripts/test` has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.runner import __main__ as main
from tests.runner import changed, table


@pytest.fixture
def form(monkeypatch) -> Callable[..., list[str]]:
    """The lanes of a form after a change, at a commit; None: there is nothing to compare with."""

    def names(*words: str, change: list[str] | None = None, commits: int = 0) -> list[str]:
        def paths(_reference: str | None) -> list[str]:
            if change is None:
                raise changed.NoSuchReference
            return change

        monkeypatch.setattr(changed, "paths", paths)
        monkeypatch.setattr(main, "commits", lambda: commits)
        return [lane.name for lane in main.chosen(main.parse(words), table.load())]

    return names


@pytest.mark.parametrize(
    "path",
    [
        "scripts/ansible/roles/switch/tasks/main.yml",
        "scripts/systemd/tsn-agent.service",
        "scripts/debian/tsn-switch.postinst",
        "agent/pyproject.toml",
    ],
)
def test_a_switch_boots_in_the_short_form_where_playbooks_units_or_packages_changed(form, path):
    assert "boot-core" in form(change=[path])
    assert "boot-core" not in form("--all", change=[path])


@pytest.mark.parametrize(
    "change", [[], ["cnc/planner/exact.py", "agent/wake_ups.py"], ["left-behind"], None]
)
def test_elsewhere_a_switch_boots_in_all_and_before_lanes_that_take_turns(form, change, capsys):
    assert "boot-core" not in form(change=change)
    assert "boot-core: no change starts it here; --all begins with it" in capsys.readouterr().out
    first = {lane.name for lane in table.load().lanes.values() if lane.first}
    for commits in range(10):
        names = form("--all", "--budget", "45m", change=change, commits=commits)
        assert "boot-core" in names[: len(first)]


@pytest.mark.parametrize("change", [["scripts/ansible/push.yml"], ["docs/lab/lab.md"], None])
def test_the_short_form_and_all_have_each_lane_once(form, change):
    both = [*form(change=change), *form("--all", change=change)]
    assert sorted(both) == sorted(table.load().lanes)


def test_with_a_budget_playbooks_run_in_containers_each_time_and_emulated_seldom(form):
    emulated = {"ansible", "ansible-dry", "ansible-again", "docs-all"}
    seen = []
    for commits in range(60):
        names = form("--all", "--budget", "45m", commits=commits)
        assert {"ansible-containers", "docs"} <= set(names)
        seen += emulated & set(names)
    assert all(9 <= seen.count(name) <= 11 for name in emulated)


def test_lanes_whose_turn_it_is_not_are_named(form, capsys):
    assert "ansible-again" not in form("--all", "--budget", "45m")
    said = capsys.readouterr().out
    assert "ansible-again: once in 6 commits, and not at this one" in said
