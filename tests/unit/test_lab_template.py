"""What the switches of a lab start from is made once, and again when what goes into it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.testbed.lab import template as room


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The repositories that were made, in place of sysrepo's; modules and cache are private."""
    found: list[Path] = []

    def make(directory: Path, lab: str, users: list[str]) -> Path:
        repository = directory / f"made-{len(found)}"
        repository.mkdir(parents=True)
        (repository / "users").write_text(" ".join(users))
        found.append(repository)
        return repository

    yang = tmp_path / "yang"
    yang.mkdir()
    (yang / "one.yang").write_text("module one {}")
    monkeypatch.setattr(room, "make_template", make)
    monkeypatch.setattr(room, "YANG", yang)
    monkeypatch.setenv("TSN_CACHE", str(tmp_path / "cache"))
    return found


def test_a_second_lab_takes_the_repository_of_the_first(made: list[Path], tmp_path: Path):
    first = room.template("one", ["tsn"], tmp_path)
    assert (first / "users").read_text() == "tsn"
    assert room.template("two", ["tsn"], tmp_path) == first
    assert len(made) == 1


def test_other_modules_and_other_operators_get_a_repository_of_their_own(
    made: list[Path], tmp_path: Path
):
    first = room.template("one", ["tsn"], tmp_path)
    other = room.template("one", ["root"], tmp_path)
    (tmp_path / "yang" / "one.yang").write_text("module one { revision 2030-01-01; }")
    assert len({first, other, room.template("one", ["tsn"], tmp_path)}) == 3


def test_two_labs_that_make_it_at_once_both_have_it_and_leave_nothing_else(
    made: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    slow = room.make_template

    def overtaken(directory: Path, lab: str, users: list[str]) -> Path:
        monkeypatch.setattr(room, "make_template", slow)
        room.template("faster", users, directory)
        return slow(directory, lab, users)

    monkeypatch.setattr(room, "make_template", overtaken)
    found = room.template("slower", ["tsn"], tmp_path)
    assert list((tmp_path / "cache").iterdir()) == [found]
    assert len(made) == 2
