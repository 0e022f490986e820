"""The modules of `yang/`: they compile, take what is right, and refuse what is wrong by name.

A refused instance is a file of `data/yang-refused/`; the comment at its top holds the message
expected and the end of the path it must name (a node at the top has none).
"""

from __future__ import annotations

import re
from pathlib import Path

import libyang
import pytest

from tests.stack.yang_modules import (
    EXAMPLES,
    MODULE_FILES,
    UNSUPPORTED,
    YANG,
    empty_context,
    installed_context,
    listed_modules,
    standard_context,
    with_config,
    with_data,
)

REFUSED = sorted((Path(__file__).parent / "data" / "yang-refused").glob("*.xml"))


@pytest.fixture(scope="module")
def context():
    """All modules with the features a switch has."""
    with installed_context() as loaded:
        yield loaded


@pytest.fixture(scope="module")
def standard():
    """The same without the deviations."""
    with standard_context() as loaded:
        yield loaded


@pytest.fixture
def validate(context):
    """Parses and validates a configuration, as a commit of it would be, or with state too."""

    def run(xml: str, *, state: bool = False, context: libyang.Context = context) -> libyang.DNode:
        tree = context.parse_data_mem(
            xml, "xml", strict=True, no_state=not state, validate_present=True
        )
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


@pytest.mark.parametrize("module", with_data())
def test_the_example_of_a_module_is_valid_and_shows_that_module(module, validate):
    text = (EXAMPLES / f"{module}.xml").read_text()
    tree = validate(text, state=module not in with_config())

    shown = {node.module().name() for root in tree.siblings() for node in walk(root)}
    assert module in shown


def walk(node: libyang.DNode):
    yield node
    if isinstance(node, libyang.DContainer):
        for child in node.children():
            yield from walk(child)


def test_an_example_without_a_module_does_not_linger():
    assert {f.stem for f in EXAMPLES.glob("*.xml")} == set(with_data())


@pytest.mark.parametrize("file", REFUSED, ids=lambda f: f.stem)
def test_a_wrong_instance_is_refused_with_the_reason_and_the_place(file, validate, standard):
    text = file.read_text()
    expected = re.match(r"<!--\nrefused: (?P<reason>.+)\n(at: (?P<place>.+)\n)?-->\n", text)
    assert expected, "the file does not say what is expected"

    with pytest.raises(libyang.LibyangError) as refusal:
        validate(text, context=standard)

    assert expected["reason"] in str(refusal.value)
    if expected["place"]:
        path = re.search(r"Data path: (\S+)", str(refusal.value))
        assert path
        assert path[1].endswith(expected["place"])


def test_there_are_wrong_instances():
    assert len(REFUSED) >= 20


NOT_SUPPORTED = re.findall(
    r'deviation\s+((?:"[^"]+"[\s+]*)+)\{[^}]*deviate not-supported',
    (YANG / f"{UNSUPPORTED}.yang").read_text(),
)
# Steps of a schema path, but not of the path to data.
CHOICE_AND_CASE = re.compile(r"/[\w-]+:(map-type|parameters)/[^/]+")
# As above, where the choice has the name of the container that it is in.
CHOICE_OF_CONTAINER = re.compile(r"/([\w-]+:(?:algorithm|encapsulation))/\1/[^/]+")
PREFIXES = {
    "if:": "ietf-interfaces:",
    "dot1q:": "ieee802-dot1q-bridge:",
    "psfp-bridge:": "ieee802-dot1q-psfp-bridge:",
    "dot1cb-sid:": "ieee802-dot1cb-stream-identification:",
    "dot1cb-frer:": "ieee802-dot1cb-frer:",
    "ptp-tt:": "ieee1588-ptp-tt:",
    "dot1as-gptp:": "ieee802-dot1as-gptp:",
}


@pytest.mark.parametrize("target", NOT_SUPPORTED)
def test_what_the_agent_does_not_apply_is_in_the_standard_but_not_on_a_switch(
    target, context, standard
):
    path = "".join(re.findall(r'"([^"]+)"', target))
    for prefix, module in PREFIXES.items():
        path = path.replace(f"/{prefix}", f"/{module}")
    path = CHOICE_OF_CONTAINER.sub(r"/\1", CHOICE_AND_CASE.sub("", path))

    assert list(standard.find_path(path))
    with pytest.raises(libyang.LibyangError):
        list(context.find_path(path))


def test_deviations_are_tested():
    assert len(NOT_SUPPORTED) >= 20


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
