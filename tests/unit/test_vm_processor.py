"""Which processor a kernel in virtual time is bound to."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cnc.testbed.lab.vm import runner


@pytest.fixture
def two_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "CACHE", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})


@pytest.mark.usefixtures("two_processors")
def test_each_kernel_has_another_processor_and_one_too_many_has_the_choice():
    with (
        runner.own_processor() as first,
        runner.own_processor() as second,
        runner.own_processor() as third,
    ):
        assert (first[-1:], second[-1:], third) == (["3"], ["5"], [])


@pytest.mark.usefixtures("two_processors")
def test_the_processor_of_a_kernel_that_has_ended_is_free_again():
    with runner.own_processor() as former:
        pass
    with runner.own_processor() as later:
        assert later == former


def test_what_is_bound_runs_on_that_processor_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runner, "CACHE", tmp_path)
    asked = ["python3", "-c", "import os; print(*os.sched_getaffinity(0))"]

    with runner.own_processor() as bound:
        answer = subprocess.run([*bound, *asked], capture_output=True, text=True, check=True)

    assert answer.stdout.split() == bound[-1:]
