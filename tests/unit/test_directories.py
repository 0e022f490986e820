"""Where files of a user are kept."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from cnc.support import directories
from cnc.testbed.lab import vm

VARIABLES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "TSN_CACHE")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/operator")


@pytest.mark.parametrize(
    ("directory", "variable", "default", "chosen"),
    [
        (directories.config_dir, "XDG_CONFIG_HOME", "~/.config/cnc", "/xdg/cnc"),
        (directories.state_dir, "XDG_STATE_HOME", "~/.local/state/cnc", "/xdg/cnc"),
        (
            directories.cache_dir,
            "XDG_CACHE_HOME",
            "~/.cache/tsn-control-plane",
            "/xdg/tsn-control-plane",
        ),
    ],
)
def test_a_directory_has_a_default_and_an_absolute_variable_moves_it(
    monkeypatch: pytest.MonkeyPatch, directory, variable: str, default: str, chosen: str
) -> None:
    assert directory() == Path(default)
    monkeypatch.setenv(variable, "not/absolute")
    assert directory() == Path(default)
    monkeypatch.setenv(variable, "/xdg")
    assert directory() == Path(chosen)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "/home/operator/.cache/tsn-control-plane"),
        ({"XDG_CACHE_HOME": "not/absolute"}, "/home/operator/.cache/tsn-control-plane"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/tsn-control-plane"),
        ({"XDG_CACHE_HOME": "/xdg", "TSN_CACHE": ""}, "/xdg/tsn-control-plane"),
        ({"XDG_CACHE_HOME": "/xdg", "TSN_CACHE": "/mine"}, "/mine"),
    ],
)
def test_the_runner_of_kernels_has_the_same_cache(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert directories.cache_dir().expanduser() == Path(expected)
    assert runpy.run_path(vm.RUNNER[-1])["CACHE"] == Path(expected)
