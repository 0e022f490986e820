"""`cnc --controller`: what a service runs, before a real worker and a real core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from cnc.cli import cnc, controller
from cnc.errors import InputError
from cnc.service.commands import OFFERED
from cnc.service.refused import CallRefused, Code
from tests.unit.service_network import FILE
from tests.unit.web_worker import Worker, planning, worker

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    directory = tmp_path_factory.mktemp("core")
    with worker(directory, planning(directory, FILE)) as its:
        yield its


@pytest.fixture
def run(web: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def with_controller(*words: str, by: str = "operator") -> Result:
        its = ("--controller", web.url, "--controller-certificate", str(web.trusted))
        return CliRunner().invoke(cnc, [*its, *words], env={controller.TOKEN: by})

    return with_controller


def test_a_command_prints_what_it_prints_of_the_plan_of_the_service(run, tmp_path):
    there = run("talkers", "--csv")
    here = CliRunner().invoke(cnc, ["plan", str(FILE), "-o", str(tmp_path / "plan.json")])
    here = CliRunner().invoke(cnc, ["talkers", "--csv", str(tmp_path / "plan.json")])
    assert (there.exit_code, there.output) == (0, here.output)


def test_the_exit_code_is_that_of_the_command(run):
    assert run("path", "nobody").exit_code == 2


def test_a_push_hands_the_service_another_intent_and_waits_until_it_runs(run, tmp_path):
    document = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    del document["streams"]["valves"]
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(document))

    result = run("push", "other.yaml")
    assert result.exit_code == 0
    assert result.output.startswith("Taken: removed valves.\n")
    assert "valves" not in run("talkers").output
    assert run("push", "other.yaml").output == "The service has this intent already.\n"


def test_what_the_service_refuses_as_bad_input_is_bad_input_here(run):
    result = run("status", "--identity", "key")
    assert isinstance(result.exception, InputError)
    assert "--identity" in str(result.exception)


def test_a_viewer_hands_over_no_intent(run, tmp_path):
    (tmp_path / "other.yaml").write_text(FILE.read_text(encoding="utf-8"))
    refused = run("push", "other.yaml", by="viewer").exception
    assert isinstance(refused, CallRefused)
    assert refused.code is Code.FORBIDDEN


def test_a_rollback_puts_the_former_intent_back_and_waits_until_it_runs(run, tmp_path):
    document = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    del document["streams"]["valves"]
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(document))
    run("push", "other.yaml")

    result = run("rollback")
    assert result.exit_code == 0
    assert result.output.startswith("Taken: added valves.\n")
    assert "valves" in run("talkers").output


def test_a_service_goes_back_to_no_more_than_one_rollout(run):
    result = run("rollback", "1", "2")
    assert isinstance(result.exception, InputError)


def test_other_commands_stay_on_this_machine(run):
    assert "bash" in run("completion", "bash").output


def test_without_a_token_it_says_where_one_belongs(run, web):
    result = run("status", by="")
    assert isinstance(result.exception, InputError)
    assert "controller.token" in str(result.exception)
    assert "cnc token add" in str(result.exception.hint)


def test_every_command_that_a_service_offers_is_asked_for_there():
    assert OFFERED.keys() | {"push", "rollback"} == controller.RUN_BY_SERVICE
