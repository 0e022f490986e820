"""The NETCONF server serves whatever sysrepo holds: it could be a product of its own."""

from __future__ import annotations

from pathlib import Path

from tests.python_imports import Package

PACKAGE = Package(Path(__file__).parents[2], "agent")
SERVER = "agent.netconfd"
# The bindings of sysrepo, and what any daemon needs.
BESIDE = ("agent.sysrepo", "agent.journal", "agent.service_manager", "agent.whole_file")


def is_in(module: str, *rooms: str) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


def test_the_server_imports_nothing_of_the_agent_but_the_bindings_and_what_any_daemon_needs():
    beyond = {
        f"{module} imports {each.module}"
        for module in PACKAGE.files
        if is_in(module, SERVER, *BESIDE)
        for each in PACKAGE.imports(module)
        if is_in(each.module, "agent") and not is_in(each.module, SERVER, *BESIDE, "agent.__init__")
    }
    assert not beyond


def test_no_module_of_the_agent_imports_the_server():
    assert not {
        module
        for module in PACKAGE.files
        if not is_in(module, SERVER)
        and any(is_in(each.module, SERVER) for each in PACKAGE.imports(module))
    }
