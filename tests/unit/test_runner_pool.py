"""Lanes as processes: how many at once, what waits for what, what they took, and their end."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.runner.pool import Ended, Job, Pool


def shell(name: str, text: str, **how) -> Job:
    return Job(name, ["sh", "-c", text], **how)


def run(jobs, slots=2, **how) -> tuple[dict[str, Ended], list[Job]]:
    done: dict[str, Ended] = {}

    def note(one: Ended) -> list[Job]:
        done[one.job.name] = one
        return []

    left_out = Pool(slots, note, lambda _: "made", **how).run(jobs)
    return done, left_out


def ended(process: Path) -> bool:
    """Whether a process is gone within ten seconds, but for what its parent has to collect."""
    for _ in range(1000):
        with suppress(FileNotFoundError):
            if (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.01)
                continue
        return True
    return False


def test_no_more_run_at_once_than_there_are_slots(tmp_path):
    # Each waits for another one to be there, or for half a second: alone, it leaves no mark.
    meet = f"touch {tmp_path}/$$; sleep 0.1; ls {tmp_path} | wc -l >$0; rm {tmp_path}/$$"
    counts = [tmp_path.with_name(f"count{n}") for n in range(4)]
    run([Job(str(n), ["sh", "-c", meet, str(count)]) for n, count in enumerate(counts)], slots=2)
    assert max(int(count.read_text()) for count in counts) == 2


def test_a_job_starts_after_what_it_needs_and_gets_its_result(tmp_path):
    user = shell(
        "user",
        f'echo "$PACKAGE" >>{tmp_path}/log',
        needs=("package",),
        environment=lambda made: {"PACKAGE": made["package"]},
    )
    run([user, shell("package", f"echo first >>{tmp_path}/log")])
    assert (tmp_path / "log").read_text().split() == ["first", "made"]


def test_a_job_whose_need_failed_does_not_start(tmp_path):
    user = shell("user", f"touch {tmp_path}/ran", needs=("package",))
    done, _ = run([user, shell("package", "exit 3")])
    assert done["package"].status == 3
    assert done["user"].status is None
    assert not (tmp_path / "ran").exists()


def test_a_need_that_nothing_makes_is_an_error_and_no_endless_wait():
    with pytest.raises(RuntimeError, match="nothing makes what these need: user"):
        run([shell("user", "true", needs=("package",))])


def test_a_job_too_long_for_the_budget_is_left_out_and_a_shorter_one_is_not():
    jobs = [shell("long", "true", wall_s=100), shell("short", "true", wall_s=10)]
    done, left_out = run(jobs, budget_s=50)
    assert [job.name for job in left_out] == ["long"]
    assert list(done) == ["short"]


def test_what_the_end_of_a_job_asks_for_runs_before_all_that_waits():
    order = []

    def ended(one: Ended) -> list[Job]:
        order.append(one.job.name)
        return [shell("again", "true")] if one.job.name == "first" else []

    Pool(1, ended, lambda _: "").run([shell("first", "true"), shell("second", "true")])
    assert order == ["first", "again", "second"]


def test_cpu_time_is_that_of_all_descendants_and_not_of_waiting():
    busy = "import time\nwhile time.process_time() < 0.2: pass"
    command = f"{sys.executable} -c '{busy}'; sleep 0.05"
    done, _ = run([shell("child", command)])
    assert 0.2 <= done["child"].cpu_s < 10 * 0.2


def test_a_signal_is_told_as_the_shell_does():
    done, _ = run([shell("killed", "kill -TERM $$")])
    assert done["killed"].status == 143


def test_what_a_job_leaves_behind_ends_with_it(tmp_path):
    run([shell("leaves", f"sleep 60 & echo $! >{tmp_path}/pid")])
    assert ended(Path("/proc", (tmp_path / "pid").read_text().strip()))


def test_output_goes_to_its_file(tmp_path):
    run([shell("one", "echo out; echo err >&2", output=tmp_path / "output")])
    assert (tmp_path / "output").read_text().split() == ["out", "err"]


def test_when_the_run_is_interrupted_no_job_and_no_child_of_it_is_left(tmp_path):
    class Interrupted(Exception):
        pass

    def interrupt(_ended: Ended) -> list[Job]:
        while not (tmp_path / "pid").exists():
            time.sleep(0.01)
        raise Interrupted

    waits = shell(
        "waits", f"sleep 60 & echo $$ $! >{tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; wait"
    )
    with pytest.raises(Interrupted):
        Pool(2, interrupt, lambda _: "").run([waits, shell("quick", "true")])
    assert all(ended(Path("/proc", pid)) for pid in (tmp_path / "pid").read_text().split())
