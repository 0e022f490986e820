"""The paths of end stations in `tsn-multipath`: set, read back, and as they are reported."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

from cnc.data_tree import reply
from cnc.data_tree.reply import Element, Reply
from cnc.data_tree.tree import NETCONF
from cnc.mechanism import PlaceEdit
from cnc.mechanisms.multipath.leaves import (
    LEAVES,
    MP,
    NAMESPACES,
    PATH,
    connections,
    read,
    stored_connections,
    written,
)
from cnc.mechanisms.multipath.model import (
    LIMIT_MAX,
    Endpoint,
    Mode,
    Path,
    PathReport,
    Settings,
    StationPath,
    SubflowReport,
)

_OPERATION = f"{{{NETCONF}}}operation"
_REMOVE, _REPLACE = ({_OPERATION: each} for each in ("remove", "replace"))


def filters() -> list[Element]:
    """Of all of it, configuration and state."""
    return [MP("multipath")]


def edit(parts: Mapping[str, StationPath], its: PlaceEdit) -> list[Element]:
    """Sets these paths and, with them, the settings of the station. Of a station without settings
    all goes."""
    settings = next((each.settings for each in parts.values() if each.settings), None)
    if settings is None:
        return [MP("multipath", _REMOVE)] if parts else []
    for name, each in parts.items():
        if each.path:
            its.interfaces.of(name)  # which a path refers to
    return [
        MP(
            "multipath",
            *_settings(settings),
            *(_path(name, each.path) for name, each in sorted(parts.items())),
        )
    ]


def _path(name: str, path: Path | None) -> Element:
    if path is None:
        return MP("path", _REMOVE, MP("interface", name))
    return MP(
        "path",
        _REPLACE,
        MP("interface", name),
        MP("backup", _text(path.backup)),
        MP("announce", _text(path.announce)),
        *written(path, PATH),
    )


def _settings(its: Settings) -> Iterator[Element]:
    """What is not stated goes: the station then has what it had before."""
    yield MP("enabled", _text(its.enabled))
    yield MP("default-mode", str(its.mode))
    yield MP(
        "limits",
        _REPLACE,
        MP("subflows", str(its.subflows)),
        MP("add-addr-accepted", str(its.add_addr_accepted)),
    )
    if its.scheduler is None:
        yield MP("scheduler", _REMOVE)
    else:
        yield MP("scheduler", its.scheduler)
    tuning = {
        "congestion-control": its.congestion_control,
        "no-metrics-save": its.no_metrics_save,
        "maximum-buffer": its.max_buffer_octets,
    }
    leaves = (MP(name, _text(value)) for name, value in tuning.items() if value is not None)
    yield MP("tuning", _REPLACE, *leaves)
    if its.connections is None:
        yield MP("connections", _REMOVE)
    else:
        yield MP("connections", _REPLACE, *connections(its.connections))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def stored(whole: Reply, _bridges: Collection[str] = ()) -> dict[str, StationPath]:
    """The paths that are configured, by port."""
    node = _multipath(whole)
    if node is None:
        return {}
    settings = _stored_settings(node)
    return {
        LEAVES.required(each, "interface"): StationPath(
            Path(_is_true(each, "backup"), _is_true(each, "announce"), **read(each, PATH)), settings
        )
        for each in reply.entries(node, "m:path", NAMESPACES)
    }


def _stored_settings(node: Element) -> Settings:
    def number(path: str, otherwise: int) -> int:
        found = LEAVES.optional_number(node, path)
        return otherwise if found is None else found

    saved = LEAVES.text(node, "tuning/no-metrics-save")
    return Settings(
        mode=Mode(LEAVES.text(node, "default-mode") or Mode.HASSLE_FREE),
        enabled=LEAVES.text(node, "enabled") != "false",
        subflows=number("limits/subflows", LIMIT_MAX),
        add_addr_accepted=number("limits/add-addr-accepted", LIMIT_MAX),
        scheduler=LEAVES.text(node, "scheduler"),
        congestion_control=LEAVES.text(node, "tuning/congestion-control"),
        no_metrics_save=None if saved is None else saved == "true",
        max_buffer_octets=LEAVES.optional_number(node, "tuning/maximum-buffer"),
        connections=stored_connections(node.find("m:connections", NAMESPACES)),
    )


def reported(whole: Reply, _bridges: Collection[str] = ()) -> dict[str, PathReport]:
    """What the kernel has at ports with endpoints or paths, whoever has made them."""
    node = _multipath(whole)
    if node is None:
        return {}
    kernel = next(reply.rows(node, "m:kernel", NAMESPACES), None)
    subflows = _subflows(node)
    return {
        LEAVES.required(each, "interface"): PathReport(
            managed=_is_true(each, "managed"),
            lack=LEAVES.text(each, "lack"),
            endpoints=tuple(
                Endpoint(
                    LEAVES.required(its, "address"),
                    frozenset(LEAVES.required(its, "flags").split()),
                    _is_true(its, "managed"),
                )
                for its in reply.entries(each, "m:endpoint", NAMESPACES)
            ),
            kernel=kernel.leaves if kernel else {},
            demoted=LEAVES.text(each, "demoted"),
            subflows=tuple(subflows.get(LEAVES.required(each, "interface"), ())),
        )
        for each in reply.entries(node, "m:path-state", NAMESPACES)
    }


def _subflows(node: Element) -> Mapping[str, Sequence[SubflowReport]]:
    """By port, of connections that the agent manages; some of them, where there are many."""
    found: dict[str, list[SubflowReport]] = defaultdict(list)
    for each in islice(node.iterfind("m:connection/m:subflow", NAMESPACES), reply.ENTRIES_MAX):
        if interface := LEAVES.text(each, "interface"):
            reason = LEAVES.required(each, "reason")
            found[interface].append(SubflowReport(_is_true(each, "backup"), reason))
    return found


def _is_true(parent: Element, leaf: str) -> bool:
    return LEAVES.text(parent, leaf) == "true"


def _multipath(whole: Reply) -> Element | None:
    found: Element | None = whole.data.find("m:multipath", NAMESPACES)
    return found
