"""The linters as a lane: `python3 -m tests.runner.lint FILE` writes a report as pytest does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.runner.table import CHECKOUT

LINTERS = {
    "ruff": ["ruff", "check"],
    "ruff format": ["ruff", "format", "--check"],
    "mypy": ["mypy"],
}
SHELL = (b"#!/usr/bin/env bash", b"#!/bin/bash", b"#!/bin/sh")


def shell_scripts() -> list[str]:
    """Every file of the checkout that a shell runs."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(
        [*listed, "scripts", "yang", "cnc", ".ci"],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    names = [name for name in done.stdout.split("\0") if name and (CHECKOUT / name).is_file()]
    return [name for name in names if (CHECKOUT / name).read_bytes().startswith(SHELL[:2])]


def main(report: Path) -> int:
    """Run them all, show what each found, and write the counts. Returns 1 if one found anything."""
    suite = ElementTree.Element("testsuite")
    failures = 0
    for name, command in {**LINTERS, "shellcheck": ["shellcheck", *shell_scripts()]}.items():
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        ElementTree.SubElement(suite, "testcase", classname="lint", name=name)
        if done.returncode != 0:
            failures += 1
            print(f"--- {name}\n{done.stdout}{done.stderr}")
    suite.attrib |= {"tests": str(len(suite)), "failures": str(failures)}
    ElementTree.ElementTree(suite).write(report)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
