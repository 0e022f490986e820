"""What a filter selects in a process without sysrepo is what sysrepo itself selects."""

from __future__ import annotations

import time

import pytest

from agent.netconfd.broker.datastore import Read
from agent.sysrepo import LibyangError
from agent.sysrepo.data import (
    DEFAULTS_MODES,
    WITH_ORIGIN,
    get_data,
    parse_data,
    parse_notification,
    print_lyb,
    print_xml,
)
from agent.sysrepo.instances import MAX_KEY_CHARACTERS, needed_instances
from agent.sysrepo.nacm import Nacm, set_nacm_user
from agent.sysrepo.schema_context import build, export
from agent.sysrepo.selection import needed_paths, select, selects, union_of_paths
from tests.stack.filtered_switch import (
    ANYWHERE,
    BEYOND_SYSREPO,
    DOWNWARDS,
    GATES,
    IF,
    ONE,
)

DATASTORES = ("running", "operational")
DEPTHS = range(5)


@pytest.fixture(scope="module")
def context(data_switch):
    return build(export(data_switch))


@pytest.fixture(scope="module")
def sessions(data_switch):
    with (
        data_switch.start_session("running") as one,
        data_switch.start_session("operational") as other,
    ):
        yield {"running": one, "operational": other}


def read(session, datastore, xpath, max_depth=0):
    options = WITH_ORIGIN if datastore == "operational" else 0
    return get_data(session, xpath, max_depth=max_depth, options=options)


def printed(tree, max_depth=0):
    return {mode: print_xml(tree, mode, empty_containers=max_depth > 0) for mode in DEFAULTS_MODES}


def selected_by_sysrepo(session, datastore, xpath, max_depth):
    with read(session, datastore, xpath, max_depth) as tree:
        return printed(tree, max_depth)


def readable(context, session, datastore, xpath):
    """The data at the paths that the expression needs, as they come from the other process."""
    wanted = Read(datastore, needed_instances(context, xpath))
    if not wanted.instances:
        return b""
    with read(session, datastore, wanted.xpath) as tree:
        return print_lyb(tree)


def selected(context, lyb, xpath, max_depth):
    tree = select(parse_data(context, lyb), xpath, max_depth)
    try:
        return printed(tree, max_depth)
    finally:
        if tree is not None:
            tree.free()


@pytest.mark.parametrize("datastore", DATASTORES)
@pytest.mark.parametrize("xpath", [*DOWNWARDS, *ANYWHERE])
def test_an_expression_selects_what_sysrepo_selects(xpath, datastore, sessions, context):
    lyb = readable(context, sessions[datastore], datastore, xpath)
    assert {depth: selected(context, lyb, xpath, depth) for depth in DEPTHS} == {
        depth: selected_by_sysrepo(sessions[datastore], datastore, xpath, depth) for depth in DEPTHS
    }


@pytest.mark.parametrize("datastore", DATASTORES)
@pytest.mark.parametrize(("xpath", "same"), BEYOND_SYSREPO.items())
def test_an_expression_that_is_beyond_sysrepo_selects_what_it_says(
    xpath, same, datastore, sessions, context
):
    lyb = readable(context, sessions[datastore], datastore, xpath)
    for depth in DEPTHS:
        expected = selected_by_sysrepo(sessions[datastore], datastore, same, depth)
        assert selected(context, lyb, xpath, depth) == expected


def test_most_expressions_of_the_comparison_select_something(sessions):
    """Else it would compare nothing with nothing."""
    both = [*DOWNWARDS, *ANYWHERE]
    empty = [
        xpath
        for xpath in both
        if not any(
            selected_by_sysrepo(sessions[datastore], datastore, xpath, 0)["report-all"]
            for datastore in DATASTORES
        )
    ]
    assert len(both) - len(empty) >= 80, empty


@pytest.mark.parametrize(
    ("xpath", "paths"),
    [
        (f"{ONE}[ietf-interfaces:name='p1']/ietf-interfaces:enabled", ("enabled", "name")),
        (f"{ONE}/{GATES}/gate-enabled", (f"{GATES}/gate-enabled",)),
        (f"{ONE}/ietf-interfaces:enabled | {ONE}[ietf-interfaces:name='p1']", ("",)),
        (
            f"{ONE}[ietf-interfaces:statistics]/ietf-interfaces:statistics/in-octets",
            ("statistics",),
        ),
        (f"{ONE}[ietf-interfaces:description]/ietf-interfaces:name", ("description", "name")),
    ],
)
def test_only_what_an_expression_needs_is_read(xpath, paths, context):
    assert needed_paths(context, xpath) == tuple(
        f"{IF}/interface/{path}".rstrip("/") for path in paths
    )


@pytest.mark.parametrize(
    "xpath",
    [
        f"{ONE}[1]/ietf-interfaces:name",
        f"{ONE}[contains(., 'x')]/ietf-interfaces:name",
        f"{ONE}[not(ietf-interfaces:description)]/ietf-interfaces:name",
        f"{ONE}/ietf-interfaces:name/../ietf-interfaces:type",
    ],
)
def test_what_depends_on_more_than_its_end_reads_the_whole_module(xpath, context):
    assert needed_paths(context, xpath) == (IF, "/ietf-interfaces:interfaces-state")


@pytest.mark.parametrize("xpath", ["/*", "//*", "/*/*", *DOWNWARDS, *ANYWHERE])
def test_needed_paths_are_among_those_of_data_and_none_is_below_another(xpath, context):
    paths = needed_paths(context, xpath)
    assert [path for path in paths if next(context.find_path(path)).data_path() == ""] == []
    assert [one for one in paths for other in paths if one.startswith(f"{other}/")] == []


@pytest.mark.parametrize(
    "xpath",
    [
        "/",
        "/ietf-interfaces:nothing",
        "/ietf-netconf:get-config/source",
        "/tsn-linux:agent-started",
    ],
)
def test_nothing_is_read_for_what_no_data_can_match(xpath, context):
    assert needed_paths(context, xpath) == ()


@pytest.mark.parametrize(
    ("xpath", "problem"),
    [
        ("1 + 1", "not a node set"),
        (f"count({IF})", "not a node set"),
        (f"{ONE}[", "Unexpected XPath expression end"),
        ("/nowhere:interfaces", "nowhere"),
        ("id('x')", "id"),
    ],
)
def test_an_expression_that_is_none_is_refused(xpath, problem, context):
    with pytest.raises(LibyangError, match=problem):
        needed_paths(context, xpath)


def test_what_a_user_may_not_read_decides_on_nothing(data_switch, context):
    """RFC 8341, section 3.2.4: as if it was not there."""
    xpath = f"{ONE}[ietf-interfaces:description]/ietf-interfaces:name"
    with data_switch.start_session("running") as session:
        allowed = selected(context, readable(context, session, "running", xpath), xpath, 0)
        nacm = Nacm(session)
        try:
            set_nacm_user(session, "observer")
            lyb = readable(context, session, "running", xpath)
            set_nacm_user(session, None)
        finally:
            nacm.close()
    assert "<name>p1</name>" in allowed["explicit"]
    assert selected(context, lyb, xpath, 0)["explicit"] == ""


def test_a_union_of_n_paths_over_n_interfaces_takes_no_more_than_n_log_n(context):
    """Eight times as many took 50 times as long when libyang evaluated the union as a whole."""
    # The least of three: another program that uses the processor's caches adds to either.
    few_s, many_s = (
        min(cpu_of_union_s(context, count) for _ in range(3)) for count in (2_000, 16_000)
    )
    assert many_s / few_s < 20


def cpu_of_union_s(context, count):
    names = [f"p{number}" for number in range(count)]
    interfaces = "".join(f"<interface><name>{name}</name></interface>" for name in names)
    xml = (
        f'<interfaces xmlns="urn:ietf:params:xml:ns:yang:ietf-interfaces">{interfaces}</interfaces>'
    )
    tree = context.parse_data_mem(xml, "xml", parse_only=True)
    xpath = " | ".join(f"{ONE}[ietf-interfaces:name='{name}']" for name in names)
    begun_s = time.process_time()
    assert needed_paths(context, xpath) == (f"{IF}/interface",)
    kept = select(tree, xpath)
    taken_s = time.process_time() - begun_s
    assert print_xml(kept, "explicit").count("<name>") == count
    kept.free()
    return taken_s


def test_a_notification_is_selected_by_what_is_in_it(context):
    tree = parse_notification(
        context,
        '<port-state-change xmlns="urn:tsn-control-plane:yang:tsn-linux"><interface>p1</interface>'
        "<oper-status>up</oper-status></port-state-change>",
    )
    try:
        assert selects(tree, "/tsn-linux:*")
        assert selects(tree, "/tsn-linux:port-state-change[interface='p1']")
        assert not selects(tree, "/tsn-linux:port-state-change[interface='p2']")
    finally:
        tree.free()


ENTRIES = f"{IF}/interface"
BOTH_LEAVES = ("enabled", "name")


@pytest.mark.parametrize(
    ("xpath", "read"),
    [
        (f"{ONE}[ietf-interfaces:name='p1']", [f"{ENTRIES}[name='p1']"]),
        (f"{ONE}[name = 'p1']/enabled", [f"{ENTRIES}[name='p1']/{leaf}" for leaf in BOTH_LEAVES]),
        (f"{ONE}[name='a'] | {ONE}[name='b']", [f"{ENTRIES}[name='{key}']" for key in "ab"]),
        (f"{ONE}[enabled='true']", [ENTRIES]),
        (f"{ONE}[name!='p1']", [ENTRIES]),
        (f"{ONE}[name='{'x' * (MAX_KEY_CHARACTERS + 1)}']", [ENTRIES]),
    ],
)
def test_of_a_list_whose_keys_are_given_only_those_entries_are_read(xpath, read, context):
    instances = needed_instances(context, xpath)
    assert sorted(Read("running", [each]).xpath for each in instances) == read


def test_a_list_entry_into_which_many_paths_go_is_read_whole(context):
    def read(*leaves):
        xpath = " | ".join(f"{ONE}[name='p1']/{leaf}" for leaf in leaves)
        instances = needed_instances(context, f"{xpath} | {ONE}[name='p2']/enabled")
        return {Read("running", [each]).xpath for each in instances}

    few, entry = ("name", "type", "enabled"), f"{ENTRIES}[name='p1']"
    assert entry not in read(*few)
    assert read(*few, "description") - read(*few) == {entry}


def test_no_constant_of_a_client_is_more_than_a_constant_in_what_the_broker_evaluates(context):
    (wanted, *_) = needed_instances(context, f"{ONE}[name=\"'] | //*[.='\"]")
    xpath = Read("running", [wanted]).xpath
    assert xpath.endswith("[name=\"'] | //*[.='\"]")
    assert union_of_paths(xpath) == (xpath,)
