"""The application layer and the public API: composed without a command line, imported when used."""

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import cnc
from cnc import app
from cnc.errors import InputError, PlanRejected
from cnc.intent import from_document
from cnc.model import Intent, Plan, PortRef, WakeUps
from cnc.rollout import StatedPorts
from cnc.switch import ConnectOptions

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
HOW = ConnectOptions(Path("nowhere"), Path("nowhere"))
ROOMS = ["click", "rich", "paramiko", "ncclient", "lxml", "pydantic", "cnc.planner.search"]


def in_a_fresh_interpreter(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def test_importing_cnc_imports_no_room() -> None:
    program = f"import sys, cnc.app; print(*sorted(set(sys.modules) & set({ROOMS!r})))"
    assert in_a_fresh_interpreter(program) == ""


def test_a_module_within_a_lazy_room_is_executed_once() -> None:
    program = (
        "import cnc.app, cnc.cli\n"
        "from cnc.switch.device import ConnectOptions\n"
        "print(cnc.ConnectOptions is ConnectOptions)"
    )
    assert in_a_fresh_interpreter(program) == "True"


def test_the_application_layer_plans_without_click_rich_and_netconf() -> None:
    program = (
        "import sys, pathlib, cnc\n"
        f"plan = cnc.plan(cnc.load_intent(pathlib.Path({str(LINE3)!r})))\n"
        "assert not cnc.judge(plan)\n"
        "print(*sorted({'click', 'rich', 'paramiko'} & set(sys.modules)))"
    )
    assert in_a_fresh_interpreter(program) == ""


def test_every_public_name_is_there_and_documented() -> None:
    api = (LINE3.parents[1] / "docs/reference/api.md").read_text()
    for name in cnc.__all__:
        assert getattr(cnc, name) is not None
        assert f"`{name}" in api, name
    assert set(cnc.__all__) <= set(dir(cnc))


def test_the_example_of_the_api_page_ends_in_a_table() -> None:
    """Its blocks in their order, without those that need switches."""
    api = (LINE3.parents[1] / "docs/reference/api.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", api, flags=re.DOTALL)
    program = "\n".join(block for block in blocks if "ConnectOptions" not in block)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=LINE3.parents[1],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.rstrip() in api


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        cnc.no_such_name  # noqa: B018


def test_a_file_is_loaded_as_what_its_name_says(tmp_path: Path) -> None:
    intent = app.load(LINE3)
    assert isinstance(intent, Intent)
    file = tmp_path / "plan.json"
    written = app.plan(intent)
    app.dump_plan(written, file)
    assert app.load(file) == written
    with pytest.raises(InputError):
        app.load(tmp_path / "none.yaml")


def test_a_plan_is_not_planned_again_and_asks_no_switch() -> None:
    plan = app.plan(app.load_intent(LINE3))
    assert app.plan_of(plan) is plan
    assert app.plan_to_push(plan, connect=None) is plan
    assert app.plan_to_compare(plan, connect=None) is plan


def test_an_unsound_running_plan_is_refused_with_codes_and_ports(tmp_path: Path) -> None:
    plan = app.plan(app.load_intent(LINE3))
    broken = Plan(plan.intent, plan.streams, {}, plan.algorithm)
    file = tmp_path / "running.json"
    app.dump_plan(broken, file)
    with pytest.raises(PlanRejected, match=r"gate-missing .*s1/") as refused:
        app.load_running_plan(file)
    assert refused.value.hint == "plan without --keep"


def test_doctor_finds_that_a_push_would_refuse_an_unsound_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cnc.rollout, "visit", lambda *_, **__: {})
    plan = app.plan(app.load_intent(LINE3))
    assert not app.doctor(plan, connect=HOW).has_failures
    found = app.doctor(Plan(plan.intent, plan.streams, {}, plan.algorithm), connect=HOW)
    (failed,) = [each for each in found.findings if each.verdict == "failed"]
    assert (failed.check, failed.where) == ("plan", "the network")
    assert "gate-missing" in failed.text


def test_doctor_finds_that_a_push_would_refuse_talkers_whose_frames_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = yaml.safe_load(re.sub(r"max-latency: \S+", "max-latency: 900us", LINE3.read_text()))
    document |= {"forwarding": "bridged", "policing": "drop"}
    document["defaults"]["talker-lateness"] = "1us"
    intent = from_document(document, "line3")
    late = {PortRef("t1", "eth0"): WakeUps(3_000, 5_000)}
    monkeypatch.setattr(cnc.rollout, "visit", lambda *_, **__: {})
    monkeypatch.setattr(cnc.rollout, "stated", lambda *_: StatedPorts({}, {}, late))
    found = app.doctor(intent, connect=HOW)
    (failed,) = [each for each in found.findings if each.verdict == "failed"]
    assert failed.check == "plan"
    assert "policing drops later frames of torque" in failed.text
    assert found.no_plan is None


def test_a_search_can_be_watched() -> None:
    steps: list[str] = []
    app.plan(app.load_intent(LINE3), listener=lambda now: steps.append(now.step))
    assert steps


def test_no_package_takes_the_name_of_a_public_function() -> None:
    """A package that is imported becomes an attribute of `cnc`, in the function's place."""
    assert not {*cnc.__all__} & {module.name for module in pkgutil.iter_modules(cnc.__path__)}
