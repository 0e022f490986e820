"""The Debian package as lintian sees it: nothing that is not meant, and a reason for what is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
OVERRIDES = CHECKOUT / "scripts" / "debian" / "tsn-switch.lintian-overrides"
NEED = CHECKOUT / "scripts" / "setup.d" / "apt-need"


@pytest.fixture(scope="module")
def said(package: Path) -> list[str]:
    """What lintian says of the package: a letter, the package, a tag and where."""
    subprocess.run([NEED, "lintian"], check=True)
    run = subprocess.run(
        [
            *("lintian", "--allow-root", "--tag-display-limit", "0", "--show-overrides"),
            str(package),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not run.stderr, run.stderr
    return run.stdout.splitlines()


def overridden() -> dict[str, str]:
    """The tags that are overridden, with the comment above each."""
    reasons: dict[str, str] = {}
    reason, is_comment = "", False
    for line in OVERRIDES.read_text().splitlines():
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
    said: list[str], package: Path
) -> None:
    reasons = overridden()
    assert all(len(reason.split()) > 5 for reason in reasons.values()), reasons
    tags = {line.split()[2] for line in said if line.startswith("O:")}
    if "+deb12" in package.name:  # on later releases sysrepo is a package of its own
        assert {override.split()[0] for override in reasons} == tags
