"""The datastores as one client asks for them.

The broker reads what the user may read, and changes what the user may write. What the client has
written itself, filters and configurations, is parsed and evaluated here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from lxml import etree

from agent.netconfd.capabilities import BASIC_MODE
from agent.netconfd.data_model import DataModel
from agent.netconfd.errors import BASE, NMDA, RpcError
from agent.netconfd.session import edit_config, filters
from agent.netconfd.session.broker import Broker
from agent.netconfd.session.get import Selection, default_mode, element_of
from agent.netconfd.session.origins import strip as strip_origins
from agent.sysrepo import DNode, LibyangError
from agent.sysrepo.data import parse_data, parse_notification, print_json, print_xml
from agent.sysrepo.differences import Edit, differences
from agent.sysrepo.instances import Instances, needed_instances
from agent.sysrepo.selection import select, selects


class Part(NamedTuple):
    """What a filter selects: an XPath, None if it can select nothing, and what decides on it.

    `needed` as `agent.sysrepo.instances` has it, None: everything.
    """

    xpath: str | None
    needed: tuple[Instances, ...] | None


class Datastores:
    """Every function may raise RpcError, RpcErrors, or what `Broker.call` raises."""

    def __init__(self, broker: Broker, model: DataModel) -> None:
        self._broker = broker
        self._model = model

    @property
    def content_id(self) -> int:
        """sysrepo's number for the modules that they know."""
        return self._model.content_id

    async def get(self, selection: Selection) -> etree._Element:
        """The running configuration and, merged into it, the state, selected, as <data>."""
        return await self._get("get", "running", selection, BASE)

    async def get_config(self, source: str, selection: Selection) -> etree._Element:
        """The selected configuration of a datastore as <data>."""
        return await self._get("get-config", source, selection, BASE)

    async def get_data(self, datastore: str, selection: Selection) -> etree._Element:
        """What is selected of any datastore, as RFC 8526's <data>."""
        data = await self._get("get-data", datastore, selection, NMDA)
        if datastore == "operational":
            for filter_ in selection.origin_filters():
                filter_.select(data, self._model.context, self._model.modules)
            if not selection.with_origin:
                strip_origins(data)
        return data

    async def whole(self, source: str, with_defaults: str) -> etree._Element:
        """A whole datastore, to be copied with its defaults as in this mode (RFC 6243)."""
        selection = Selection(with_defaults=with_defaults)
        return await self._get("copy-config", source, selection, BASE)

    async def edit(
        self,
        operation: str,
        target: str,
        config: etree._Element,
        *,
        default_operation: str,
        test_option: str,
    ) -> None:
        """Apply the edit in <config> as a whole, or not at all."""
        with self._errors():
            edit = edit_config.parse(self._model.context, config, self._model.modules)
            body = self._as_json(edit) if self._broker.takes_json else edit.xml
        await self._call(
            "edit",
            body.encode(),
            operation=operation,
            target=target,
            default_operation=default_operation,
            test_option=test_option,
            opaque=edit.is_opaque,
        )

    def _as_json(self, edit: edit_config.Edit) -> str:
        if edit.is_opaque:
            raise RpcError(
                "operation-not-supported",
                "to delete a leaf, give its value: this server's edits name what they delete",
            )
        tree = self._model.context.parse_data_mem(edit.xml, "xml", parse_only=True, strict=True)
        try:
            return print_json(tree)
        finally:
            if tree is not None:
                tree.free()

    async def replace(
        self, operation: str, target: str, config: etree._Element, source: str | None = None
    ) -> None:
        """Replace the datastore's content with <config>; subscribers may refuse.

        `source`: the datastore that <config> was read from.
        """
        model = self._model
        with self._errors():
            xml = edit_config.whole(model.context, config, model.modules)
            tree = model.context.parse_data_mem(xml, "xml", parse_only=True, strict=True)
            xml = edit_config.printed(tree)
        await self._call("replace", xml.encode(), operation=operation, target=target, source=source)

    async def validate_config(self, config: etree._Element) -> None:
        """YANG validation of a <config> that is in no datastore."""
        await self._broker.call("validate")
        model = self._model
        with self._errors():
            xml = edit_config.whole(model.context, config, model.modules)
            # What cannot be parsed is told by its first error: libyang 3.13.6 that is to find all
            # errors of a tree goes on after such a node and reads memory that it has given back.
            if parsed := model.context.parse_data_mem(xml, "xml", strict=True, parse_only=True):
                parsed.free()
            tree = model.context.parse_data_mem(
                xml, "xml", strict=True, no_state=True, validate_multi_error=True
            )
            if tree is not None:
                tree.free()

    async def execute(self, operation: str) -> list[etree._Element]:
        """Have the RPC or action of a module performed; returns its output."""
        output = await self._call("execute", operation.encode())
        return list(element_of(output.decode(), BASIC_MODE, BASE))

    def notification_filter(self, filter_: etree._Element | None) -> str | None:
        """The XPath of a subscription's filter, None if it can select nothing."""
        xpath = filters.to_xpath(filter_, self._model.modules)
        if xpath is not None:
            # Any notification shows whether libyang can evaluate it.
            self.admits(
                '<replayComplete xmlns="urn:ietf:params:xml:ns:netmod:notification"/>', xpath
            )
        return xpath

    def admits(self, notification: str, xpath: str) -> bool:
        """Whether the filter selects something in a notification."""
        with self._errors():
            tree = parse_notification(self._model.context, notification)
            try:
                return selects(tree, xpath)
            finally:
                tree.free()

    def part(self, filter_: etree._Element | None) -> Part:
        """What a <filter> selects in these modules."""
        xpath = filters.to_xpath(filter_, self._model.modules)
        if xpath is None:
            return Part(None, ())
        if xpath == filters.EVERYTHING:
            return Part(xpath, None)
        with self._errors():
            return Part(xpath, needed_instances(self._model.context, xpath))

    async def subscribed(self, number: int, datastore: str, part: Part) -> DNode | None:
        """What a subscription selects now; the tree is the caller's to free."""
        return await self._selected(
            part, operation="establish-subscription", datastore=datastore, subscription=number
        )

    def printed(self, tree: DNode | None, datastore: str) -> str:
        """The tree as XML, with the defaults in use where `get-data` shows them, too."""
        with self._errors():
            return print_xml(tree, default_mode(datastore))

    def packed(self, tree: DNode | None) -> bytes:
        """The tree as compressed XML, in a hundredth of its memory; b"" for nothing."""
        with self._errors():
            xml = print_xml(tree, BASIC_MODE)
        return zlib.compress(xml.encode(), level=1) if xml else b""

    def differences(self, before: bytes, after: DNode | None) -> list[Edit]:
        """What has changed from a packed tree to another; the former may be of earlier modules."""
        context = self._model.context
        with self._errors():
            tree = None
            if before:
                xml = zlib.decompress(before).decode()
                tree = context.parse_data_mem(xml, "xml", parse_only=True)
            try:
                return differences(context, tree, after)
            finally:
                if tree is not None:
                    tree.free()

    async def _get(
        self, operation: str, datastore: str, selection: Selection, namespace: str
    ) -> etree._Element:
        origins = selection.origin_filters() if datastore == "operational" else ()
        part = self.part(selection.filter_)
        if datastore != "operational" and selection.config is False:
            part = part._replace(needed=())
        tree = await self._selected(
            part,
            selection.max_depth,
            operation=operation,
            datastore=datastore,
            config=selection.config,
            with_origin=bool(origins) or selection.with_origin,
        )
        with self._errors():
            empty_containers = selection.max_depth > 0
            xml = print_xml(tree, selection.with_defaults, empty_containers=empty_containers)
            if tree is not None:
                tree.free()
        return element_of(xml, selection.with_defaults, namespace)

    async def _selected(self, part: Part, max_depth: int = 0, **parameters: Any) -> DNode | None:
        """What is selected of what the user may read; the tree is the caller's to free."""
        octets = await self._broker.call(
            "read", content_id=self._model.content_id, instances=part.needed, **parameters
        )
        if not octets or part.xpath is None:
            return None
        with self._errors():
            tree = parse_data(self._model.context, octets)
            if tree is not None and (max_depth or part.xpath != filters.EVERYTHING):
                tree = select(tree, part.xpath, max_depth)
            return tree

    async def _call(self, name: str, body: bytes = b"", **parameters: object) -> bytes:
        return await self._broker.call(name, body, content_id=self._model.content_id, **parameters)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except LibyangError as error:
            raise self._model.rpc_errors(error) from None
