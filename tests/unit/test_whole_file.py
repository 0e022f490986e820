"""A private file is the old one or the new one, whatever fails on the way."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from agent import whole_file
from agent.netconfd.front.host_key import load_or_create_host_key


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "kept.json"
    whole_file.replace(path, b"old")
    return path


@pytest.fixture
def fail(monkeypatch):
    """Let the disk be full for one system call."""

    def full(*_args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return lambda call: monkeypatch.setattr(os, call, full)


def test_a_file_is_replaced_and_nobody_else_may_read_it(path):
    path.chmod(0o644)
    whole_file.replace(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_on_a_full_disk_the_old_file_stays_and_no_part_of_the_new_one(path, fail, call):
    fail(call)
    with pytest.raises(OSError, match="No space left"):
        whole_file.replace(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


def test_what_a_killed_process_left_half_written_is_in_nobodys_way(path):
    path.with_suffix(".new").write_bytes(b"ne")
    whole_file.replace(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]


def test_a_durable_file_and_its_end_are_on_disk_before_anybody_hears_of_it(path, monkeypatch):
    synced = []
    monkeypatch.setattr(
        os,
        "fsync",
        lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink())),
    )
    whole_file.replace(path, b"new")
    assert synced == [str(path.with_suffix(".new")), str(path.parent)]
    whole_file.remove(path)
    assert not path.exists()
    assert synced[2:] == [str(path.parent)]


def test_a_host_key_that_could_not_be_written_is_made_at_the_next_start(
    tmp_path, fail, monkeypatch
):
    path = tmp_path / "host_key"
    fail("replace")
    with pytest.raises(OSError, match="No space left"):
        load_or_create_host_key(path)
    monkeypatch.undo()
    key = load_or_create_host_key(path)
    assert path.with_suffix(".pub").read_bytes() == key.export_public_key()
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_or_create_host_key(path) == key


def test_a_host_key_is_made_with_the_directory_it_belongs_in(tmp_path):
    path = tmp_path / "etc" / "tsn" / "host_key"
    key = load_or_create_host_key(path)
    assert load_or_create_host_key(path) == key
