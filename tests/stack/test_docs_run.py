"""`scripts/check-docs`: what it makes of pages, and that the pages of this tree pass.

Blocks that need a booted Debian are run by tests/boot/test_docs_switch.py.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


def check_docs(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CHECKOUT / "scripts/check-docs", *arguments], capture_output=True, text=True, check=False
    )


def page(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "page.md"
    file.write_text(text)
    return file


def test_commands_of_a_page_run_in_one_shell_and_leave_nothing_behind(tmp_path: Path):
    file = page(
        tmp_path,
        "<!-- run: host\nWORD=one\n-->\n```sh\ntouch ~/here && cd ~ && export OTHER=two\n```\n\n"
        "<!-- run: host -->\n```console\n$ ls\nhere\n$ echo $WORD $OTHER\none two\n```\n",
    )

    done = check_docs("--only", file)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("exit code 0  ok") == 2


def test_every_block_is_listed_with_its_exit_code(tmp_path: Path):
    file = page(
        tmp_path,
        "<!-- run: host exit=3 -->\n```sh\n(exit 3)\n```\n\n"
        '<!-- run: no reason="no moon here" -->\n```sh\nfly\n```\n',
    )

    done = check_docs("--only", file, "--json", tmp_path / "results.json")
    ran, left_out = json.loads((tmp_path / "results.json").read_text())

    assert done.returncode == 0
    assert "NOT RUN  no moon here" in done.stdout
    assert (ran["line"], ran["place"], ran["exit_code"], ran["fault"]) == (2, "host", 3, "")
    assert (left_out["line"], left_out["exit_code"], left_out["not_run"]) == (
        7,
        None,
        "no moon here",
    )


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("<!-- run: host -->\n```sh\nfalse\ntrue\n```\n", "exit code 1, not 0"),
        ("<!-- run: host exit=1 -->\n```sh\ntrue\n```\n", "exit code 0, not 1"),
        ("<!-- run: host exit=1 -->\n```sh\nfalse\nfalse\n```\n", "exit code 1, not 0"),
        ("<!-- run: host\nfalse\n-->\n```sh\ntrue\n```\n", "exit code 1, not 0"),
        ("<!-- run: host -->\n```console\n$ echo one\ntwo\n```\n", "the page shows\ntwo"),
        ("<!-- run: host -->\n```sh\nexit 0\n```\n", "did not end"),
        ('<!-- run: no covered-by="tests/none.py" -->\n```sh\ntrue\n```\n', "names no file"),
        ("```sh\ntrue\n```\n", "no comment right before it"),
    ],
)
def test_a_page_that_says_something_else_fails(tmp_path: Path, block: str, why: str):
    done = check_docs("--only", page(tmp_path, block))

    assert done.returncode == 1
    assert why in done.stderr
    assert f"{tmp_path}/page.md:" in done.stderr


def test_a_page_that_is_not_there_is_bad_input(tmp_path: Path):
    assert check_docs("--only", tmp_path / "none.md").returncode == 2


def test_a_reference_that_git_does_not_know_is_bad_input():
    done = check_docs("--changed", "no-such-reference")

    assert (done.returncode, done.stdout) == (2, "")
    assert "no-such-reference" in done.stderr


# The lane docs runs this one each time, docs-all the other one.
@pytest.mark.timeout(2400)
def test_a_page_does_what_it_says_after_a_change_of_it_or_of_its_commands():
    done = check_docs("--changed", "--place", "host", "--place", "lab", "--place", "no")
    print(done.stdout)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.timeout(2400)
def test_every_page_of_this_tree_does_what_it_says():
    done = check_docs("--place", "host", "--place", "lab", "--place", "no")
    print(done.stdout)

    assert (done.returncode, done.stderr) == (0, "")
