"""Debian's Prometheus with the alert rules and the queries of the dashboard."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.stack.lab_user import CHECKOUT, User
from tests.stack.netconfd_process import wait_until
from tests.unit.test_monitoring import MONITORING, panels, rules

LINE3 = CHECKOUT / "schedules/line3.yaml"
ALERTS = MONITORING / "alerts.yaml"
UPDATE = CHECKOUT / "scripts/setup.d/apt-update"
LIMIT_S = 60.0
PORT = 'switch="s1", port="p1"'
COPIES = f'{PORT}, destination_mac="03:54:53:4e:00:01", vlan_id="10"'
# By alert a series that it is for; each is seen to fire with it, and not without.
CAUSES = {
    "SwitchUnwatched": ('tsn_switch_up{switch="s1"}', "0x20"),
    "ScheduleLost": (f"tsn_port_agrees{{{PORT}}}", "0x20"),
    "ConfiguredOtherwise": ('tsn_condition{kind="configuration", switch="s1"}', "1x20"),
    "NetworkBetweenTwoSchedules": ("tsn_rollout_unfinished", "1x20"),
    "ScheduledFramesLost": (f'tsn_condition{{kind="drops", {PORT}}}', "1x20"),
    "ScheduledFramesDoNotLeave": (f'tsn_condition{{kind="starved", {PORT}}}', "1x20"),
    "FramesLostOnAllPaths": (
        f'tsn_stream_recovery_total{{counter="lost", {COPIES}}}',
        "0+1x20",
    ),
    "PathSilent": (f'tsn_condition{{kind="silent-path", {PORT}}}', "1x20"),
    "CopiesMissing": (f"tsn_stream_latent_error{{{COPIES}}}", "1x20"),
    "StationSendsOtherwise": (f'tsn_condition{{kind="policed", {PORT}}}', "1x20"),
    "ControlBeyondItsRate": (f'tsn_condition{{kind="control-rate", {PORT}}}', "1x20"),
    "GatesLate": ('tsn_condition{kind="gate-margin", switch="s1"}', "1x20"),
    "ClockWrong": ('tsn_condition{kind="clock-offset", switch="s1"}', "1x20"),
    "CableDownOrElsewhere": (f'tsn_condition{{kind="cabling", {PORT}}}', "1x20"),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Prometheus and promtool are. They are not installed: the package starts a service."""
    directory = tmp_path_factory.mktemp("prometheus")

    def download() -> bool:
        command = ["apt-get", "-qq", "download", "prometheus"]
        return subprocess.run(command, cwd=directory, check=False).returncode == 0

    if not download():
        subprocess.run([UPDATE], check=True)
        assert download()
    (package,) = directory.glob("prometheus_*.deb")
    subprocess.run(["dpkg-deb", "-x", package, directory], check=True)
    return directory / "usr/bin"


def promtool(programs: Path, *words: object) -> None:
    done = subprocess.run(
        [programs / "promtool", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_for_its_cause_and_for_nothing_else(
    programs: Path, tmp_path: Path
) -> None:
    promtool(programs, "check", "rules", ALERTS)
    assert CAUSES.keys() | {"WatchGone"} == rules().keys()
    watched = {"series": "tsn_rollout_unfinished", "values": "0x20"}

    def firing(expected: str | None, *series: dict[str, str]) -> dict[str, Any]:
        # One sample of each alert that fires, whatever its other labels.
        found = "count by (alertname) (ALERTS{alertstate='firing'})"
        labels = f'{{alertname="{expected}"}}'
        return {
            "interval": "15s",
            "input_series": list(series),
            "promql_expr_test": [
                {
                    "expr": found,
                    "eval_time": "4m",
                    "exp_samples": [{"labels": labels, "value": 1}] if expected else [],
                }
            ],
        }

    tests = [firing(None, watched), firing("WatchGone")]
    for alert, (series, values) in CAUSES.items():
        cause = {"series": series, "values": values}
        tests.append(firing(alert, *([] if series == watched["series"] else [watched]), cause))
    cases = tmp_path / "cases.yaml"
    cases.write_text(
        yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "15s", "tests": tests})
    )
    promtool(programs, "test", "rules", cases)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    its = User(tmp_path)
    its.up(LINE3)
    its.does("push", LINE3)
    yield its
    its.cnc("lab", "down")


@pytest.fixture
def watched(user: User) -> Iterator[str]:
    """Where `cnc watch` answers scrapes."""
    address = f"127.0.0.1:{free_port()}"
    argv, environment = user.command("watch", LINE3, "--metrics", address)
    process = subprocess.Popen(
        argv, env=environment, cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    yield address
    process.terminate()
    process.wait(LIMIT_S)


@pytest.fixture
def ask(programs: Path, watched: str, tmp_path: Path) -> Iterator[Callable[[str], list[Any]]]:
    """Asks a Prometheus that scrapes it each second."""
    address = f"127.0.0.1:{free_port()}"
    config = tmp_path / "prometheus.yml"
    scraped = {"job_name": "tsn", "static_configs": [{"targets": [watched]}]}
    config.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(ALERTS)],
                "scrape_configs": [scraped],
            }
        )
    )
    process = subprocess.Popen(
        [
            programs / "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address={address}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=(tmp_path / "prometheus.log").open("w"),
    )

    def asked(query: str) -> list[Any]:
        url = f"http://{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                found: list[Any] = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as refused:
            if refused.code == HTTPStatus.SERVICE_UNAVAILABLE:  # it starts
                return []
            raise AssertionError(f"{query}: {refused.read().decode()}") from refused
        except OSError:  # nor listens yet
            return []
        return found

    assert wait_until(lambda: asked("tsn_rollout_unfinished"), LIMIT_S)
    yield asked
    process.terminate()
    process.wait(LIMIT_S)


def test_the_dashboard_shows_a_network_and_the_switches_that_are_lost(
    user: User, ask: Callable[[str], list[Any]]
) -> None:
    figures = {
        panel["title"]: panel["targets"][0]["expr"] for panel in panels() if panel["type"] == "stat"
    }
    queries = [target["expr"] for panel in panels() for target in panel["targets"]]

    def shown(title: str) -> int:
        (sample,) = ask(figures[title])
        return int(sample["value"][1])

    assert wait_until(lambda: shown("Conditions") == 0, LIMIT_S)
    assert {title: shown(title) for title in figures} == dict.fromkeys(figures, 0)
    for query in queries:
        ask(re.sub(r"\$__rate_interval", "10s", query))
    (offset,) = (query for query in queries if "clock_offset" in query)
    assert {its["metric"]["switch"] for its in ask(offset)} == {"s1", "s2", "s3"}
    assert wait_until(lambda: not ask("ALERTS"), LIMIT_S)

    user.does("lab", "down")
    assert wait_until(lambda: shown("Switches that do not answer") == 3, LIMIT_S)
    (table,) = (panel["targets"][0]["expr"] for panel in panels() if panel["type"] == "table")
    assert {its["metric"]["kind"] for its in ask(table)} == {"unreachable"}
    assert wait_until(lambda: len(ask('ALERTS{alertname="SwitchUnwatched"}')) == 3, LIMIT_S)
