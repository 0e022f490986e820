"""OpenDocument spreadsheets (.ods; OASIS OpenDocument 1.3, part 3, chapter 9)."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence

from lxml import etree

from cnc.errors import InputError
from cnc.stream_lists.sheet import NAME, Row, Sheet, Value, chosen, counted, unpacked

_TYPE = "application/vnd.oasis.opendocument.spreadsheet"
_CONTENT = "content.xml"
_URN = "urn:oasis:names:tc:opendocument:xmlns:"
_NAMES = {each: f"{_URN}{each}:1.0" for each in ("office", "table", "text", "manifest")}
_REPEATED_MAX = 1_000  # of an empty cell or row: spreadsheets fill their sheets up with them
_WRITTEN = (1980, 1, 1, 0, 0, 0)  # so that the same rows make the same file


def _name(prefix: str, name: str) -> str:
    return f"{{{_NAMES[prefix]}}}{name}"


def read(octets: bytes, source: str) -> Sheet:
    """The rows of the sheet that is read. Raises InputError."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        content = etree.fromstring(unpacked(octets, source).read(_CONTENT), parser)
    except (KeyError, etree.XMLSyntaxError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{source}: found no spreadsheet: {error}",
            hint="save it as .ods, .xlsx or .csv again",
        ) from None
    sheets = content.findall(f".//{_name('table', 'table')}")
    if not sheets:
        raise InputError(f"{source}: found no sheet, expected one with streams")
    names = [str(sheet.get(_name("table", "name"), "")) for sheet in sheets]
    number = chosen(names)
    rows = [*counted(_rows(sheets[number]), source)]
    return Sheet(names[number], rows, range(1, len(rows) + 1))


def _rows(sheet: etree._Element) -> Iterator[Row]:
    for row in sheet.iter(_name("table", "table-row")):
        values: list[Value] = []
        for cell in row:
            if cell.tag in (_name("table", "table-cell"), _name("table", "covered-table-cell")):
                value = _value(cell)
                values += [value] * _repeated(cell, "columns", value is None)
        while values and values[-1] is None:
            values.pop()
        for _ in range(_repeated(row, "rows", not values)):
            yield values


def _repeated(element: etree._Element, what: str, is_empty: bool) -> int:
    times = int(element.get(_name("table", f"number-{what}-repeated"), "1"))
    return min(times, _REPEATED_MAX) if is_empty else times


def _value(cell: etree._Element) -> Value:
    kind = cell.get(_name("office", "value-type"))
    if kind in ("float", "percentage", "currency"):
        return float(cell.get(_name("office", "value"), "nan"))
    if kind == "boolean":
        return cell.get(_name("office", "boolean-value")) == "true"
    paragraphs = cell.findall(_name("text", "p"))
    text = "\n".join("".join(each.itertext()) for each in paragraphs)
    return text or None


def octets(rows: Sequence[Row]) -> bytes:
    """The file."""
    content = etree.Element(
        _name("office", "document-content"),
        nsmap={key: _NAMES[key] for key in ("office", "table", "text")},
    )
    content.set(_name("office", "version"), "1.3")
    body = etree.SubElement(content, _name("office", "body"))
    book = etree.SubElement(body, _name("office", "spreadsheet"))
    sheet = etree.SubElement(book, _name("table", "table"))
    sheet.set(_name("table", "name"), NAME)
    for row in rows:
        written = etree.SubElement(sheet, _name("table", "table-row"))
        for value in row:
            _write(etree.SubElement(written, _name("table", "table-cell")), value)
    entries = etree.Element(_name("manifest", "manifest"), nsmap={"manifest": _NAMES["manifest"]})
    entries.set(_name("manifest", "version"), "1.3")
    for path, kind in (("/", _TYPE), (_CONTENT, "text/xml")):
        entry = etree.SubElement(entries, _name("manifest", "file-entry"))
        entry.set(_name("manifest", "full-path"), path)
        entry.set(_name("manifest", "media-type"), kind)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, octets_ in (  # the type first, and not compressed (part 2, section 3.3)
            ("mimetype", _TYPE.encode()),
            (_CONTENT, etree.tostring(content, xml_declaration=True, encoding="UTF-8")),
            (
                "META-INF/manifest.xml",
                etree.tostring(entries, xml_declaration=True, encoding="UTF-8"),
            ),
        ):
            packing = zipfile.ZIP_STORED if path == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(path, _WRITTEN), octets_, packing)
    return packed.getvalue()


def _write(cell: etree._Element, value: Value) -> None:
    if value is None:
        return
    kind = "float" if isinstance(value, int | float) and not isinstance(value, bool) else "string"
    cell.set(_name("office", "value-type"), kind)
    if kind == "float":
        cell.set(_name("office", "value"), repr(value))
    etree.SubElement(cell, _name("text", "p")).text = str(value)
