"""BPF objects in the kernel: loaded once, adopted by who comes later, refused with the reason."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from agent.kernel import bpf_map
from agent.kernel.bpf import PinnedObject
from agent.kernel.bpf_map import MapShape
from agent.kernel.libbpf import libbpf
from agent.model import AgentError

SOURCE = Path(__file__).parent / "bpf" / "counter.bpf.c"
COMPILE = Path(__file__).parents[2] / "agent" / "bpf" / "compile"
PORT = struct.pack("=I", 7)


def number(count: int) -> bytes:
    return struct.pack("=Q", count)


@pytest.fixture
def directory(tmp_path):
    """Where objects are pinned; what a test mounts there is gone afterwards."""
    yield tmp_path / "bpf"
    if os.path.ismount(tmp_path / "bpf"):
        subprocess.run(["umount", tmp_path / "bpf"], check=True)


@pytest.fixture
def compiled(tmp_path):
    """Compiles the counter, with these lines above it; the folder of the object."""

    def run(*lines: str) -> Path:
        folder = tmp_path / f"objects-{len(list(tmp_path.glob('objects-*')))}"
        folder.mkdir()
        (folder / "counter.bpf.c").write_text("\n".join([*lines, SOURCE.read_text()]))
        subprocess.run([COMPILE, folder], check=True)
        return folder

    return run


def loaded(directory: Path, objects: Path, layout: int = 1) -> PinnedObject:
    result = PinnedObject(directory, "counter", layout, objects)
    os.close(result.load())
    return result


def test_a_loaded_object_is_adopted_with_what_its_maps_hold(directory, compiled):
    objects = compiled()
    loaded(directory, objects).map("frames").update(PORT, number(5))
    pins = sorted(path.name for path in (directory / "counter-1").iterdir())
    again = loaded(directory, objects)
    assert again.map("frames").lookup(PORT) == number(5)
    assert sorted(path.name for path in (directory / "counter-1").iterdir()) == pins
    assert [name.partition("-")[0] for name in pins] == ["frames", "program"]


def test_a_map_takes_replaces_lists_and_forgets_entries(directory, compiled):
    frames = loaded(directory, compiled()).map("frames")
    for key, count in ((PORT, 1), (b"\0\0\0\1", 2), (PORT, 3)):
        frames.update(key, number(count))
    assert dict(frames.items()) == {PORT: number(3), b"\0\0\0\1": number(2)}
    frames.delete(PORT)
    frames.delete(PORT)
    assert frames.lookup(PORT) is None
    assert dict(frames.items()) == {b"\0\0\0\1": number(2)}


def test_a_full_map_says_so(directory, compiled):
    frames = loaded(directory, compiled()).map("frames")
    for each in range(frames.entries_max):
        frames.update(struct.pack("=I", each), number(0))
    with pytest.raises(OSError, match="Argument list too long"):
        frames.update(struct.pack("=I", frames.entries_max), number(0))


@pytest.fixture(params=["by the hundred", "one by one", "with too little room"])
def listing(request, monkeypatch) -> None:
    """Kernels before Linux 5.6 list the entries of a map one by one; and the room for a batch may
    be too little for all entries that share a hash."""
    if request.param == "one by one":
        monkeypatch.setattr(libbpf(), "bpf_map_lookup_batch", lambda *_arguments: -errno.EINVAL)
    if request.param == "with too little room":
        monkeypatch.setattr(bpf_map, "_BATCH", 1)


@pytest.mark.usefixtures("listing")
def test_each_of_a_thousand_entries_is_listed_once(directory, compiled):
    with closing(loaded(directory, compiled()).new_map("many", MapShape(4, 8), 1000)) as many:
        assert many.items() == []
        numbers = {struct.pack("=I", each): number(each) for each in range(1000)}
        for key, value in numbers.items():
            many.update(key, value)
        assert sorted(many.items()) == sorted(numbers.items())
        assert sorted(many.keys()) == sorted(numbers)


def test_the_entries_of_a_map_of_one_are_listed(directory, compiled):
    with closing(loaded(directory, compiled()).new_map("one", MapShape(1, 1), 1)) as one:
        one.update(b"\1", b"\2")
        assert one.items() == [(b"\1", b"\2")]


def test_other_code_takes_over_the_maps_and_another_layout_begins_anew(directory, compiled):
    loaded(directory, compiled()).map("frames").update(PORT, number(5))
    other = loaded(directory, compiled("#define STEP 2"))
    assert other.map("frames").lookup(PORT) == number(5)
    assert len(list((directory / "counter-1").glob("program-*"))) == 1
    newer = loaded(directory, compiled("#define STEP 2"), layout=2)
    assert newer.map("frames").lookup(PORT) is None
    assert [path.name for path in directory.iterdir()] == ["counter-2"]


def test_what_is_removed_leaves_no_pin(directory, compiled):
    counter = loaded(directory, compiled())
    counter.remove()
    assert list(directory.iterdir()) == []
    assert not counter.is_pinned


def test_a_refusal_has_the_words_of_the_verifier_and_leaves_nothing(directory, compiled):
    with pytest.raises(AgentError) as refusal:
        loaded(directory, compiled("#define REFUSED"))
    text = str(refusal.value)
    assert text.startswith("the kernel refused the BPF program counter: Permission denied (EACCES)")
    assert "R0 invalid mem access 'map_value_or_null'" in text
    assert list(directory.iterdir()) == []


def test_refused_code_leaves_the_program_that_runs(directory, compiled):
    running = loaded(directory, compiled())
    running.map("frames").update(PORT, number(5))
    with pytest.raises(AgentError, match="counter"):
        loaded(directory, compiled("#define REFUSED"))
    assert running.is_pinned
    assert running.map("frames").lookup(PORT) == number(5)


def test_whether_a_program_can_be_loaded_is_found_out_without_a_trace(directory, compiled):
    refused = PinnedObject(directory, "counter", 1, compiled("#define REFUSED")).capability()
    assert refused is not None
    assert refused.startswith("the kernel refused the BPF program counter: Permission denied")
    objects = compiled()
    assert PinnedObject(directory, "counter", 1, objects).capability() is None
    assert not directory.exists()
    assert PinnedObject(directory, "counter", 1, objects).problem() is None
    assert list(directory.iterdir()) == []
    running = loaded(directory, objects)
    assert running.capability() is running.problem() is None
    assert running.is_pinned


def test_a_missing_object_is_told_with_what_makes_it(directory, tmp_path):
    reason = PinnedObject(directory, "counter", 1, tmp_path).capability()
    assert reason is not None
    assert reason.startswith(f"there is no {tmp_path}/counter.bpf.o; in a checkout scripts/setup")


def test_without_the_right_to_mount_the_command_is_told(directory, compiled):
    told = without_capabilities(directory, compiled(), "sys_admin")
    assert "and to mount one was refused: Operation not permitted (EPERM)" in told
    assert told.endswith(f"mount -t bpf bpf {directory}")


def test_who_has_only_two_capabilities_and_a_bpf_file_system_can_load(directory, compiled):
    directory.mkdir()
    subprocess.run(["mount", "-t", "bpf", "bpf", directory], check=True)
    objects = compiled()
    dropped = "sys_admin,-perfmon,-sys_resource"
    assert without_capabilities(directory, objects, dropped) == "loaded"
    refused = without_capabilities(directory, objects, f"{dropped},-bpf", layout=2)
    assert "(EPERM)" in refused


def without_capabilities(directory: Path, objects: Path, names: str, layout: int = 1) -> str:
    """What a process without them says when it loads the counter, and has said before it did."""
    program = (
        "import sys; from pathlib import Path; from agent.kernel.bpf import PinnedObject\n"
        f"sought = PinnedObject(Path('{directory}'), 'counter', {layout}, Path('{objects}'))\n"
        "told = sought.capability()\n"
        "try:\n    sought.load()\n"
        "except Exception as error:\n    assert str(error).partition(chr(10))[0] in told, told\n"
        "    print(error)\n"
        "else:\n    assert told is None, told\n    print('loaded')\n"
    )
    run = subprocess.run(
        ["setpriv", f"--bounding-set=-{names}", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=COMPILE.parents[2],
    )
    return run.stdout.strip()
