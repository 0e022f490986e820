"""Alert rules and dashboard: of metrics that there are, and of each condition."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

MONITORING = Path(__file__).parents[2] / "scripts" / "monitoring"
WATCHING = (Path(__file__).parents[2] / "docs/operate/watching.md").read_text()
METRICS = set(re.findall(r"^\| `(tsn_\w+)` \|", WATCHING, re.MULTILINE))
KINDS = set(re.findall(r"^\| `([a-z-]+)` \|", WATCHING, re.MULTILINE))
# Conditions whose rule goes by a metric of their own.
BY_METRIC = {
    "unreachable": "SwitchUnwatched",
    "agent-down": "SwitchUnwatched",
    "drift": "ScheduleLost",
    "unfinished-rollout": "NetworkBetweenTwoSchedules",
    "latent-error": "CopiesMissing",
    "recovery-errors": "FramesLostOnAllPaths",
}


def rules() -> dict[str, Any]:
    (group,) = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    return found


def queries() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules().values())
    yield from (target["expr"] for panel in panels() for target in panel["targets"])


@pytest.mark.parametrize("query", [*queries()])
def test_queries_ask_for_metrics_that_there_are(query: str) -> None:
    names = set(re.findall(r"tsn_\w+", query))
    assert names
    assert names <= METRICS


def test_each_condition_has_an_alert() -> None:
    named = re.findall(r'kind=~?"([^"]+)"', " ".join(rule["expr"] for rule in rules().values()))
    kinds = {kind for each in named for kind in each.split("|")}
    assert kinds <= KINDS
    assert kinds | BY_METRIC.keys() == KINDS
    assert set(BY_METRIC.values()) <= rules().keys()


def test_each_metric_of_a_switch_or_port_is_shown() -> None:
    shown = set(re.findall(r"tsn_\w+", " ".join(t["expr"] for p in panels() for t in p["targets"])))
    others = {  # in the table of conditions
        *("tsn_agent_up", "tsn_switch_tai_offset_seconds", "tsn_stream_filter_frames_total"),
        *("tsn_stream_latent_error", "tsn_stream_latent_error_tests_total"),
    }
    assert shown | others == METRICS


def test_panels_do_not_overlap() -> None:
    taken = [
        (x, y)
        for panel in panels()
        for its in [panel["gridPos"]]
        for x in range(its["x"], its["x"] + its["w"])
        for y in range(its["y"], its["y"] + its["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
