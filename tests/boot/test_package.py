"""The Debian packages as lintian sees them, and what is in them: nothing that is not meant."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
OVERRIDES = CHECKOUT / "scripts" / "debian"
NEED = CHECKOUT / "scripts" / "setup.d" / "apt-need"
CACHE = Path(os.environ.get("TSN_CACHE", Path.home() / ".cache" / "tsn-control-plane"))
# Where pip and scripts/build-deb have put things together.
SCRATCH = (b"/tmp/pip-", b"/tree/usr/lib/")
OUR_UNIT = re.compile(r"\b(tsn-[\w-]+@?)\w*(\.(?:service|socket))\b")
PACKAGES = {"tsn-switch": "package", "tsn-cnc": "cnc_package"}  # and the fixture of each


@pytest.fixture(scope="module", params=PACKAGES)
def built(request: pytest.FixtureRequest) -> Path:
    """Each of the packages."""
    found: Path = request.getfixturevalue(PACKAGES[request.param])
    assert found.name.startswith(f"{request.param}_")
    return found


@pytest.fixture(scope="module")
def said(built: Path) -> list[str]:
    """What lintian says of the package: a letter, the package, a tag and where."""
    subprocess.run([NEED, "lintian"], check=True)
    run = subprocess.run(
        [
            *("lintian", "--allow-root", "--tag-display-limit", "0", "--show-overrides"),
            str(built),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not run.stderr, run.stderr
    return run.stdout.splitlines()


@pytest.fixture(scope="module")
def contents(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's files, below a directory."""
    unpacked = tmp_path_factory.mktemp("contents")
    subprocess.run(["dpkg-deb", "--extract", built, unpacked], check=True)
    return unpacked


def overridden(package: str) -> dict[str, str]:
    """The tags that are overridden, with the comment above each."""
    reasons: dict[str, str] = {}
    reason, is_comment = "", False
    for line in (OVERRIDES / f"{package}.lintian-overrides").read_text().splitlines():
        if line.startswith("#"):
            reason = f"{reason} {line[1:].strip()}" if is_comment else line[1:].strip()
        elif line:
            reasons[line] = reason
        else:
            reason = ""
        is_comment = line.startswith("#")
    return reasons


def test_lintian_finds_no_error_and_no_warning_in_the_package(said: list[str]) -> None:
    assert [line for line in said if line.startswith(("E:", "W:"))] == []


def test_every_override_has_a_reason_and_something_to_override(
    said: list[str], built: Path
) -> None:
    reasons = overridden(built.name.partition("_")[0])
    assert all(len(reason.split()) > 5 for reason in reasons.values()), reasons
    tags = {line.split()[2] for line in said if line.startswith("O:")}
    if "+deb12" in built.name:  # on later releases sysrepo is a package of its own
        assert {override.split()[0] for override in reasons} == tags


def test_nothing_in_the_package_tells_where_it_was_built(contents: Path) -> None:
    places = (os.fsencode(CHECKOUT), os.fsencode(CACHE), *SCRATCH)
    files = [path for path in contents.rglob("*") if path.is_file() and not path.is_symlink()]
    assert files
    telling = {
        f"{path.relative_to(contents)}: {place.decode()}"
        for path in files
        for content in [path.read_bytes()]
        for place in places
        if place in content
    }
    assert telling == set()


def test_every_program_on_the_path_has_a_manual_page_and_is_in_the_package(contents: Path) -> None:
    programs = list((contents / "usr" / "bin").iterdir())
    assert programs
    pages = {page.name.partition(".")[0] for page in contents.glob("usr/share/man/man*/*")}
    for program in programs:
        assert (program.parent / program.readlink()).is_file()
        assert program.name in pages or program.name.startswith("sysrepo")


def test_every_unit_of_ours_that_a_unit_names_is_in_the_package(contents: Path) -> None:
    units = {path.name: path for path in contents.glob("**/lib/systemd/system/*")}
    named = {
        f"{name}{kind}"
        for path in units.values()
        for line in path.read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
        for name, kind in OUR_UNIT.findall(line)
    }
    assert named
    assert named <= units.keys()
