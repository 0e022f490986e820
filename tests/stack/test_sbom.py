"""scripts/sbom tells what each part of the product is made of, and under which licences."""

from __future__ import annotations

import json
import os
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

SBOM = Path(__file__).parents[2] / "scripts" / "sbom"


def write_bills(directory: Path, packages: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the script with more packages in front of those installed."""
    path = {"PYTHONPATH": str(packages)} if packages else {}
    return subprocess.run(
        [SBOM, "-o", directory],
        env={**os.environ, **path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def sbom(tmp_path):
    """Runs the script with more packages in front of those installed."""
    return lambda packages=None: write_bills(tmp_path / "bills", packages)


@pytest.fixture(scope="module")
def bills(tmp_path_factory) -> dict[str, dict]:
    """The written documents by part."""
    done = write_bills(tmp_path_factory.mktemp("sbom") / "bills")
    assert done.returncode == 0, done.stderr
    paths = [Path(line) for line in done.stdout.splitlines()]
    return {
        path.name.removeprefix("tsn-control-plane-").removesuffix(".cdx.json"): json.loads(
            path.read_text()
        )
        for path in paths
    }


@pytest.fixture
def claim(tmp_path):
    """Puts metadata of rich, which the controller needs, in the place of the installed one."""

    def make(told: str, version: str = metadata.version("rich")) -> Path:
        directory = tmp_path / "packages" / f"rich-{version}.dist-info"
        directory.mkdir(parents=True)
        (directory / "METADATA").write_text(
            f"Metadata-Version: 2.4\nName: rich\nVersion: {version}\n{told}\n"
        )
        return directory.parent

    return make


def named(bill: dict) -> set[str]:
    return {component["name"] for component in bill["components"]}


def test_each_part_has_a_valid_bill(bills):
    products = {
        "cnc": "tsn-control-plane",
        "agent": "tsn-control-plane-agent",
        "lab": "tsn-control-plane-lab",
    }
    assert set(bills) == set(products)
    for part, bill in bills.items():
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill)) is None
        product = products[part]
        assert bill["metadata"]["component"]["name"] == product


def test_a_part_has_what_it_needs_and_nothing_of_the_tests(bills):
    assert {"ncclient", "paramiko", "ortools", "distributed"} <= named(bills["cnc"])
    assert {"asyncssh", "python-pam", "libyang", "libyang (C)", "sysrepo (C)"} <= named(
        bills["agent"]
    )
    assert {"matplotlib", "pyroute2", "tsn-control-plane"} <= named(bills["lab"])
    assert not {"asyncssh", "matplotlib", "pyroute2"} & named(bills["cnc"])
    assert "ncclient" not in named(bills["agent"])
    assert not {"pytest", "ansible-core", "tsn-control-plane", "tsn-control-plane-agent"} & (
        named(bills["cnc"]) | named(bills["agent"])
    )


def test_everything_has_a_licence_a_version_and_its_place_among_the_others(bills):
    for bill in bills.values():
        parts = bill["components"]
        assert all(part["licenses"] and part["version"] and part["purl"] for part in parts)
        references = {part["bom-ref"] for part in [*parts, bill["metadata"]["component"]]}
        edges = {entry["ref"]: set(entry.get("dependsOn", ())) for entry in bill["dependencies"]}
        assert set(edges) == references
        needed = set().union(*edges.values())
        assert references - needed == {bill["metadata"]["component"]["bom-ref"]}


def test_two_runs_write_the_same(bills, sbom, tmp_path):
    assert sbom().returncode == 0
    again = json.loads((tmp_path / "bills" / "tsn-control-plane-cnc.cdx.json").read_text())
    assert again == bills["cnc"]


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("License-Expression: GPL-3.0-only", "GPL-3.0-only is not accepted"),
        ("License-Expression: MIT AND AGPL-3.0-only", "MIT AND AGPL-3.0-only is not accepted"),
        ("License: SSPL-1.0", "SSPL-1.0 is not accepted"),
        ("License: as you like it", "its metadata tells no licence"),
        ("Summary: no word of it", "its metadata tells no licence"),
    ],
)
def test_a_licence_that_is_not_accepted_is_refused(sbom, claim, tmp_path, told, reason):
    done = sbom(claim(told))
    assert done.returncode == 1
    version = metadata.version("rich")
    assert done.stderr.splitlines()[0] == f"scripts/sbom: rich {version}: {reason}"
    assert not (tmp_path / "bills").exists()


@pytest.mark.parametrize(
    "told",
    [
        "License-Expression: GPL-3.0-only OR MIT",
        "License-Expression: LGPL-2.1",
        "Classifier: License :: OSI Approved :: BSD License",
    ],
)
def test_of_a_choice_one_is_enough_and_old_names_are_known(sbom, claim, told):
    assert sbom(claim(told)).returncode == 0


def test_another_version_than_the_locked_one_is_refused(sbom, claim):
    done = sbom(claim("License-Expression: MIT", "99.0"))
    assert done.returncode == 1
    assert "rich 99.0: all.txt has another version of it" in done.stderr
