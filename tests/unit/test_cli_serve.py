"""`cnc serve` with workers that another program keeps running."""

from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnc.cli import cnc

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
HERE = grp.getgrgid(os.getgid()).gr_name


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--worker-socket", "core"], "are given together"),
        (["--worker-group", HERE], "are given together"),
        (["--worker-socket", "core", "--worker-group", "no-such"], "there is no group 'no-such'"),
        (["--netconf-group", HERE], "--netconf-group is given with --netconf-socket"),
        (["--move-state"], "give them with --database"),
    ],
)
def test_an_option_without_what_it_needs_is_refused(tmp_path, options, reason):
    result = CliRunner().invoke(
        cnc, ["serve", str(LINE3), "--state-dir", str(tmp_path / "state"), *options]
    )

    assert result.exit_code == 2
    assert reason in result.output
    assert not (tmp_path / "state").exists()
