"""The modules of `yang/`: they compile, take what is right, and refuse what is wrong by name.

A refused instance is a file of `data/yang-refused/`; the comment at its top holds the message
expected and the end of the path it must name (a node at the top has none).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import libyang
import pytest

YANG = Path(__file__).parents[2] / "yang"
EXAMPLES = YANG / "examples"
REFUSED = sorted((Path(__file__).parent / "data" / "yang-refused").glob("*.xml"))
MODULE_FILES = sorted([*YANG.glob("*.yang"), *YANG.glob("standard/*.yang")])
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  where sysrepo keeps it

# Modules without data nodes have nothing an instance could show.
WITH_DATA = [f for f in MODULE_FILES if re.search(r"^  (container|augment) ", f.read_text(), re.M)]


def listed_modules() -> dict[str, list[str]]:
    """Module to features, as `modules.txt` has them."""
    lines = (YANG / "modules.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return {name: features[0].split(",") if features else [] for name, *features in rows}


def empty_context() -> libyang.Context:
    return libyang.Context(f"{YANG}:{YANG / 'standard'}")


@pytest.fixture(scope="module")
def context():
    """All modules with the features a switch has."""
    with empty_context() as loaded:
        for name, features in listed_modules().items():
            module = loaded.load_module(name)
            for feature in features:
                module.feature_enable(feature)
        yield loaded


@pytest.fixture
def validate(context):
    """Parses and validates a configuration, as a commit of it would be."""

    def run(xml: str) -> libyang.DNode:
        tree = context.parse_data_mem(xml, "xml", strict=True, no_state=True, validate_present=True)
        trees.append(tree)
        return tree

    trees: list[libyang.DNode] = []
    yield run
    for tree in trees:
        tree.free()


@pytest.mark.parametrize("file", MODULE_FILES, ids=lambda f: f.stem)
def test_a_module_compiles_with_nothing_but_its_imports(file):
    with empty_context() as alone:
        assert alone.load_module(file.stem).implemented()


def test_every_module_file_is_installed():
    assert sorted(listed_modules()) == sorted(f.stem for f in MODULE_FILES)


def test_the_list_of_modules_enables_every_feature_it_names(context):
    for name, features in listed_modules().items():
        module = context.get_module(name)
        assert {f.name() for f in module.features() if f.state()} == set(features)


@pytest.mark.parametrize("module", WITH_DATA, ids=lambda f: f.stem)
def test_the_example_of_a_module_is_valid_and_shows_that_module(module, validate):
    tree = validate((EXAMPLES / f"{module.stem}.xml").read_text())

    shown = {node.module().name() for root in tree.siblings() for node in walk(root)}
    assert module.stem in shown


def walk(node: libyang.DNode):
    yield node
    if isinstance(node, libyang.DContainer):
        for child in node.children():
            yield from walk(child)


def test_an_example_without_a_module_does_not_linger():
    assert {f.stem for f in EXAMPLES.glob("*.xml")} == {f.stem for f in WITH_DATA}


@pytest.mark.parametrize("file", REFUSED, ids=lambda f: f.stem)
def test_a_wrong_instance_is_refused_with_the_reason_and_the_place(file, validate):
    text = file.read_text()
    expected = re.match(r"<!--\nrefused: (?P<reason>.+)\n(at: (?P<place>.+)\n)?-->\n", text)
    assert expected, "the file does not say what is expected"

    with pytest.raises(libyang.LibyangError) as refusal:
        validate(text)

    assert expected["reason"] in str(refusal.value)
    if expected["place"]:
        path = re.search(r"Data path: (\S+)", str(refusal.value))
        assert path
        assert path[1].endswith(expected["place"])


def test_there_are_wrong_instances():
    assert len(REFUSED) >= 20


def gate_table(content: str) -> str:
    """A port whose gate parameter table holds `content`."""
    return f"""
      <interfaces xmlns="urn:ietf:params:xml:ns:yang:ietf-interfaces"
                  xmlns:sched="urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched"
                  xmlns:ianaift="urn:ietf:params:xml:ns:yang:iana-if-type">
        <interface>
          <name>swp1</name>
          <type>ianaift:ethernetCsmacd</type>
          <bridge-port xmlns="urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge">
            <gate-parameter-table xmlns="urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched-bridge">
              {content}
            </gate-parameter-table>
          </bridge-port>
        </interface>
      </interfaces>"""


LIST_OF_ONE = """
  <admin-control-list>
    <gate-control-entry>
      <index>0</index>
      <operation-name>sched:{operation}</operation-name>
      <time-interval-value>1000000</time-interval-value>
      <gate-states-value>255</gate-states-value>
    </gate-control-entry>
  </admin-control-list>
  <admin-cycle-time>
    <numerator>1</numerator>
    <denominator>1000</denominator>
  </admin-cycle-time>"""
LIMITS_IT_JUST_KEEPS = """
  <supported-list-max>1</supported-list-max>
  <supported-cycle-max>
    <numerator>1000000</numerator>
    <denominator>1000000000</denominator>
  </supported-cycle-max>
  <supported-interval-max>1000000</supported-interval-max>"""


def test_a_port_nobody_configured_is_valid(validate):
    validate(gate_table(""))


def test_a_list_is_valid_where_the_device_states_no_limits(validate):
    validate(gate_table(LIST_OF_ONE.format(operation="set-gate-states")))


def test_a_list_that_just_keeps_every_limit_is_valid(validate):
    validate(gate_table(LIST_OF_ONE.format(operation="set-gate-states") + LIMITS_IT_JUST_KEEPS))


def test_limits_without_a_list_are_valid(validate):
    validate(gate_table(LIMITS_IT_JUST_KEEPS))


@pytest.mark.parametrize("operation", ["set-and-hold-mac", "set-and-release-mac"])
def test_a_list_may_hold_and_release_the_mac(operation, validate):
    validate(gate_table(LIST_OF_ONE.format(operation=operation)))


def test_a_mode_and_a_clock_nobody_chose_are_software_and_tai(validate):
    tree = validate(gate_table(""))

    port = "/ietf-interfaces:interfaces/interface[name='swp1']/ieee802-dot1q-bridge:bridge-port"
    assert tree.find_path(f"{port}/tsn-linux:taprio/mode").value() == "software"
    assert tree.find_path(f"{port}/tsn-linux:taprio/clock").value() == "tai"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """An empty sysrepo repository for this process and its children."""
    prefix = f"tsnyang{os.getpid()}x"
    monkeypatch.setenv("SYSREPO_REPOSITORY_PATH", str(tmp_path / "repository"))
    monkeypatch.setenv("SYSREPO_SHM_PREFIX", prefix)
    yield tmp_path / "repository"
    for segment in SHARED_MEMORY.glob(f"{prefix}*"):
        segment.unlink()


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def installed() -> dict[str, tuple[str, str]]:
    """Module to revision and features, for what sysrepo has installed."""
    rows = [
        [cell.strip() for cell in line.split("|")]
        for line in run("sysrepoctl", "--list").stdout.splitlines()
        if line.count("|") > 5
    ]
    return {row[0]: (row[1], row[6]) for row in rows if "I" in row[2]}


def files_of(repository: Path) -> dict[Path, int]:
    """The schema files sysrepo keeps, and when each was written."""
    return {f: f.stat().st_mtime_ns for f in (repository / "yang").iterdir()}


@pytest.mark.usefixtures("repository")
def test_install_brings_every_module_and_its_features():
    result = run(YANG / "install")

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    now = installed()
    assert {name: now[name][1].split() for name in listed_modules()} == listed_modules()


def test_a_second_install_changes_nothing(repository):
    run(YANG / "install")
    before = files_of(repository)

    assert run(YANG / "install").returncode == 0

    assert files_of(repository) == before


def copy_with_revision(tmp_path: Path, revision: str) -> Path:
    """A copy of `yang/` whose `tsn-linux` has another revision."""
    copy = shutil.copytree(YANG, tmp_path / "yang")
    module = copy / "tsn-linux.yang"
    module.write_text(re.sub(r"  revision [\d-]+ ", f"  revision {revision} ", module.read_text()))
    return copy


@pytest.mark.usefixtures("repository")
def test_install_replaces_an_older_revision(tmp_path):
    run(copy_with_revision(tmp_path, "2020-01-01") / "install")
    assert installed()["tsn-linux"][0] == "2020-01-01"

    assert run(YANG / "install").returncode == 0

    assert installed()["tsn-linux"][0] > "2020-01-01"


@pytest.mark.usefixtures("repository")
def test_install_leaves_a_newer_revision_in_place(tmp_path):
    run(copy_with_revision(tmp_path, "2999-01-01") / "install")

    assert run(YANG / "install").returncode == 0

    assert installed()["tsn-linux"][0] == "2999-01-01"


@pytest.mark.usefixtures("repository")
def test_install_enables_a_feature_somebody_disabled():
    run(YANG / "install")
    run("sysrepoctl", "--change", "ieee802-dot1q-sched", "--disable-feature", "scheduled-traffic")

    assert run(YANG / "install").returncode == 0

    assert installed()["ieee802-dot1q-sched"][1] == "scheduled-traffic"


@pytest.mark.usefixtures("repository")
def test_a_failed_install_says_so_and_leaves_nothing_behind(tmp_path):
    copy = shutil.copytree(YANG, tmp_path / "yang")
    (copy / "tsn-linux.yang").write_text("module tsn-linux { nonsense; }")

    result = run(copy / "install")

    assert result.returncode == 1
    assert "tsn-linux" in result.stderr
    assert "install failed" in result.stderr
    assert not set(listed_modules()) & set(installed())


def test_install_refuses_arguments_it_does_not_know():
    result = run(YANG / "install", "--serach", "x")

    assert result.returncode == 2
    assert "usage: yang/install [--search DIR]" in result.stderr
