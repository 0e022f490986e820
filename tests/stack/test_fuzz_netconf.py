"""The fuzzer in its short form: every kept input, and some thousand fresh ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import strategies as st

from tests.fuzz.runner import Run
from tests.fuzz.targets import Target

CHECKOUT = Path(__file__).parents[2]


def test_some_thousand_hostile_inputs_do_no_harm(tmp_path):
    fuzz = subprocess.run(
        [CHECKOUT / "scripts/fuzz-netconf", "--inputs", "3000", "--failures", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )

    assert fuzz.stdout.splitlines()[-1:] == ["3000 inputs, 0 failures"], fuzz.stdout + fuzz.stderr
    assert fuzz.returncode == 0


class Unharmed:
    """A server that nothing is the matter with."""

    recent = ()

    def check(self):
        pass


def test_an_input_that_does_harm_is_counted_and_kept_for_a_replay(tmp_path):
    def attempt(data):
        assert len(data) < 3

    target = Target("fragile", 1000, st.binary(max_size=6), attempt)
    run = Run(Unharmed(), {"fragile": target}, tmp_path)

    run.fresh(50, 1)

    kept = sorted(tmp_path.glob("*/fragile/*"))
    assert run.failures == len(kept) > 0
    replay = Run(Unharmed(), {"fragile": target}, tmp_path / "again")
    replay.kept(kept[0].parents[1])
    assert (replay.inputs, replay.failures) == (1, 1)


def test_a_server_found_harmed_after_a_batch_is_a_failure(tmp_path):
    class Harmed(Unharmed):
        recent = (b"the last input",)

        def check(self):
            raise AssertionError("threads leak")

    run = Run(Harmed(), {"any": Target("any", 1000, st.binary(), lambda data: None)}, tmp_path)

    run.fresh(10, 1)

    assert run.failures == 1
    assert [file.read_bytes() for file in tmp_path.glob("*/any/*")] == [b"the last input"]
