"""Options from files and the environment: which wins, what is refused, what `cnc config` says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cnc import cli, rollout
from cnc.cli import settings
from cnc.data_tree.stated import StatedPorts
from cnc.errors import InputError
from tests.json_documents import documented

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"


@pytest.fixture(autouse=True)
def system_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nobody's settings but a test's own."""
    for name in ("CNC_CONFIG", "CNC_IDENTITY", "CNC_KNOWN_HOSTS", "CNC_TIMEOUT", "CNC_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(settings, "SYSTEM_FILE", tmp_path / "system.toml")
    return tmp_path / "system.toml"


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    file = tmp_path / "home" / "cnc" / "config.toml"
    file.parent.mkdir(parents=True)
    return file


def cnc(*argv: object, **environment: str) -> Result:
    return CliRunner().invoke(cli.cnc, [str(word) for word in argv], env=environment)


@pytest.fixture
def timeout_s(monkeypatch: pytest.MonkeyPatch):
    """The timeout that a status with these words uses."""
    seen: list[float] = []

    def discover(_network: object, *, connect: rollout.ConnectOptions, partial: bool) -> object:
        seen.append(connect.timeout_s)
        return StatedPorts({}, {}, {})

    monkeypatch.setattr(rollout, "read_ports", discover)
    monkeypatch.setattr(rollout, "status", lambda *_, **__: [])

    def used(*options: object, **environment: str) -> float:
        done = cnc("status", LINE3, *options, **environment)
        assert done.exit_code == 0, done
        return seen[-1]

    return used


def test_the_nearest_place_wins(timeout_s, system_file: Path, user_file: Path) -> None:
    assert timeout_s() == 30.0
    system_file.write_text("timeout = 1\n[status]\ntimeout = 2")
    assert timeout_s() == 2.0
    user_file.write_text("timeout = 3")
    assert timeout_s() == 3.0
    user_file.write_text("timeout = 3\n[status]\ntimeout = 4.5")
    assert timeout_s() == 4.5
    assert timeout_s(CNC_TIMEOUT="5") == 5.0
    assert timeout_s(CNC_TIMEOUT="5", CNC_STATUS_TIMEOUT="6") == 6.0
    assert timeout_s("--timeout", 7, CNC_STATUS_TIMEOUT="6") == 7.0


def test_a_file_of_ones_choice_is_the_only_one(
    timeout_s, system_file: Path, user_file: Path, tmp_path: Path
) -> None:
    system_file.write_text("timeout = 1")
    user_file.write_text("timeout = 2")
    mine = tmp_path / "mine.toml"
    mine.write_text("[push]\ntimeout = 3")
    assert timeout_s(CNC_CONFIG=str(mine)) == 30.0
    mine.write_text("[status]\ntimeout = 4")
    assert timeout_s(CNC_CONFIG=str(mine)) == 4.0


def test_a_command_below_a_command_has_a_table_of_both_words(user_file: Path) -> None:
    user_file.write_text('[lab.traffic]\nduration = "soon"')
    refused = cnc("lab", "traffic", LINE3)
    assert refused.exit_code == 2
    assert "--duration" in refused.stderr


@pytest.mark.parametrize(
    ("text", "line", "said", "hint"),
    [
        ('identiti = "x"', 1, "identiti: no such option of `cnc`", "do you mean identity?"),
        ('\n[plan]\n algoritm = "x"', 3, "plan.algoritm: no such option", "do you mean algorithm?"),
        ("[plam]", 1, "plam: no such option of `cnc`", "do you mean plan?"),
        ("[lab.up]\nduration = 1", 2, "lab.up.duration: no such option of `cnc lab up`", "--help"),
        ('timeout = "x"', 1, "timeout: found 'x', expected a number", "docs/operate/cli.md"),
        ("[push]\ntimeout = true", 2, "push.timeout: found True, expected a number", ""),
        ("[plan]\nseed = 1.5", 2, "plan.seed: found 1.5, expected a whole number", ""),
        ("[plan]\nalgorithm = 1", 2, "plan.algorithm: found 1, expected a text", ""),
        ('[plan]\nbest-effort = "yes"', 2, "found 'yes', expected true or false", ""),
        ('[lab.traffic]\niperf3 = ["a"]', 2, "expected a list of 2 texts", ""),
        ("plan = 1", 1, "plan: found 1, expected a table", ""),
    ],
)
def test_what_no_command_can_take_is_refused_with_its_line(
    user_file: Path, text: str, line: int, said: str, hint: str
) -> None:
    user_file.write_text(text)
    error = cnc("check", LINE3).exception
    assert isinstance(error, InputError)
    assert str(error).startswith(f"{user_file}:{line}: ")
    assert said in str(error)
    assert hint in (error.hint or "")


@pytest.mark.parametrize("text", [b"[plan", b"\xff = 1"])
def test_what_is_no_toml_is_refused(user_file: Path, text: bytes) -> None:
    user_file.write_bytes(text)
    error = cnc("check", LINE3).exception
    assert isinstance(error, InputError)
    assert f"{user_file}: not TOML: " in str(error)


def test_a_file_that_cannot_be_looked_for_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = tmp_path / ("x" * 300)  # as in a directory that may not be entered, for root too
    monkeypatch.setenv("XDG_CONFIG_HOME", str(nowhere))
    error = cnc("check", LINE3).exception
    assert isinstance(error, InputError)
    assert f"{nowhere}/cnc/config.toml: cannot read it: File name too long" in str(error)


def test_a_value_that_an_option_does_not_take_is_told_with_its_origin(
    user_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*argv: object) -> str:
        monkeypatch.setattr("sys.argv", ["cnc", *map(str, argv)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 2
        return capsys.readouterr().err

    user_file.write_text('[plan]\nalgorithm = "magic"')
    assert told("plan", LINE3).endswith(f"hint: the value comes from {user_file}:2\n")
    error = documented("error", told("plan", LINE3, "--json"))
    assert error["hint"] == f"the value comes from {user_file}:2"
    monkeypatch.setenv("CNC_PLAN_ALGORITHM", "voodoo")
    assert told("plan", LINE3).endswith("hint: the value comes from CNC_PLAN_ALGORITHM\n")
    assert "hint" not in told("plan", LINE3, "--algorithm", "luck")


def test_every_option_of_every_command_has_a_variable_of_its_own() -> None:
    seen = []
    for words, command in settings.commands(cli.cnc):
        for key, option in settings.settable(command).items():
            assert isinstance(option.envvar, list)
            assert option.envvar[0] == "_".join(["CNC", *words, key]).upper().replace("-", "_")
            seen.append(option.envvar[0])
    assert len(set(seen)) == len(seen) > 50


def test_an_option_that_may_be_repeated_belongs_to_one_call() -> None:
    # Each run of a grid is a call of its own, and would be a grid.
    measure = dict(settings.commands(cli.cnc))["lab", "measure"]
    assert "jobs" in settings.settable(measure)
    assert "set" not in settings.settable(measure)


def test_config_says_what_holds_and_whence(user_file: Path) -> None:
    user_file.write_text('identity = "~/.ssh/lab"\n\n[lab.traffic]\nduration = "2s"')
    environment = {"CNC_PUSH_IDENTITY": "mine", "CNC_TIMEOUT": "5"}
    found = documented("config", cnc("config", "--json", **environment).stdout)
    assert found["files"] == [str(user_file)]
    assert {its["name"]: (its["value"], its["origin"]) for its in found["options"]} == {
        "identity": ("~/.ssh/lab", f"{user_file}:1"),
        "known-hosts": ("~/.ssh/known_hosts", None),
        "ssh-config": ("~/.ssh/config", None),
        "timeout": ("5", "CNC_TIMEOUT"),
        "state-dir": ("~/.local/state/cnc", None),
        "push.identity": ("mine", "CNC_PUSH_IDENTITY"),
        "lab.traffic.duration": ("2s", f"{user_file}:4"),
    }
    shown = cnc("config", **environment).stdout
    assert shown.startswith(f"read {user_file}\n")
    assert "CNC_PUSH_IDENTITY" in shown


def test_a_file_that_leads_to_switches_has_to_be_there_if_it_is_named(tmp_path: Path) -> None:
    done = cnc("status", LINE3, "--ssh-config", tmp_path / "none")
    assert done.exit_code == 2
    assert f"there is no file {tmp_path}/none" in done.stderr


def test_config_without_any_file_shows_the_defaults() -> None:
    shown = cnc("config").stdout
    assert shown.startswith("no file is there\n")
    assert len(json.loads(cnc("config", "--json").stdout)["options"]) == len(settings.SHARED)
