"""Network namespaces: their names, their processes, and running a function inside one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from pyroute2 import IPRoute, config, netns

NETNS_DIRECTORY = Path("/run/netns")
# pyroute2 forks for each namespace, with a time-out of two seconds by default. In virtual time
# under QEMU the clock leaps ahead while the guest waits for files of its host: minutes pass at
# once, the more the busier the host is.
config.default_communicate_timeout = 3600

_Result = TypeVar("_Result")


def of_node(lab: str, node: str) -> str:
    """The namespace of a node, as `ip netns` lists it."""
    return f"tsn-{lab}-{node}"


def of_management(lab: str) -> str:
    return f"tsn-{lab}.management"


def of_wires(lab: str) -> str:
    return f"tsn-{lab}.wires"


def of_template(lab: str) -> str:
    """Not a namespace: the prefix of the shared memory of a lab's sysrepo template."""
    return f"tsn-{lab}.template"


def inner(lab: str) -> tuple[str, str]:
    """The namespaces of a lab beside its nodes'. A node's name has no full stop."""
    return of_management(lab), of_wires(lab)


def exists(name: str) -> bool:
    """Whether there is a namespace of that name."""
    return (NETNS_DIRECTORY / name).exists()


def inside(name: str, action: Callable[[], _Result]) -> _Result:
    """Run `action` in a thread that has moved into namespace `name`, and return what it returns."""

    def moved() -> _Result:
        # With flags=0, for pyroute2's setns creates a missing namespace by default.
        netns.setns(name, flags=0)
        return action()

    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(moved).result()


def members(name: str) -> list[int]:
    """Processes whose network namespace is `name`; none if there is no such namespace."""
    try:
        inode = (NETNS_DIRECTORY / name).stat().st_ino
    except FileNotFoundError:
        return []
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and _netns_inode(entry) == inode
    ]


def entering(names: Collection[str]) -> bool:
    """Whether a process is on its way into one of these namespaces: an `ip netns exec` that has not
    moved yet."""
    starts = [b"\0".join([b"ip", b"netns", b"exec", name.encode(), b""]) for name in names]
    return any(
        _arguments(entry).startswith(tuple(starts))
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal()
    )


def is_member(pid: int, name: str) -> bool:
    """Whether the process is in the namespace `name`."""
    try:
        return (NETNS_DIRECTORY / name).stat().st_ino == _netns_inode(Path(f"/proc/{pid}"))
    except FileNotFoundError:
        return False


def _arguments(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:  # it ended meanwhile
        return b""


def _netns_inode(process: Path) -> int | None:
    try:
        return (process / "ns/net").stat().st_ino
    except OSError:  # it ended meanwhile
        return None


def bring_up(ip: IPRoute, interface: str) -> None:
    ip.link("set", index=ip.link_lookup(ifname=interface)[0], state="up")


def sysctl(key: str, value: int) -> None:
    """Set a kernel parameter of the namespace that the calling thread is in."""
    Path("/proc/sys", key).write_text(f"{value}\n")
