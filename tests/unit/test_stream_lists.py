"""Lists of streams in spreadsheets: what they mean, what is refused, and that nothing is lost."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pytest
import yaml
from click.testing import CliRunner

from cnc import cli, stream_lists
from cnc import intent as intents
from cnc.errors import CncError, InputError
from cnc.stream_lists import ods, xlsx
from cnc.stream_lists.sheet import Row, letters

SCHEDULES = Path(__file__).parents[2] / "schedules"
LINE3 = SCHEDULES / "line3.yaml"
ENDINGS = (".csv", ".ods", ".xlsx")
MOTION: Row = ("motion", "t1", "l1", "1ms", "200B", "50us")
HEADER: Row = ("stream", "talker", "listeners", "period", "payload", "max-latency")


def written(directory: Path, ending: str, rows: Sequence[Row]) -> Path:
    """A spreadsheet with these rows in the sheet `streams`."""
    file = directory / f"list{ending}"
    forms = {".ods": ods.octets, ".xlsx": xlsx.octets, ".csv": stream_lists.table.octets}
    file.write_bytes(forms[ending](rows))
    return file


def refusal(file: Path) -> str:
    with pytest.raises(InputError) as refused:
        stream_lists.read(file)
    return str(refused.value).replace(f"{file.parent}/", "")


# --- what it means -------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_row_is_a_stream_and_a_column_a_key(tmp_path: Path, ending: str):
    rows = [HEADER, MOTION, [None] * 6, ("camera", "t2", "l1, l2", "2ms", "1000B", "100us")]
    assert stream_lists.read(written(tmp_path, ending, rows)) == {
        "motion": {
            "talker": "t1",
            "listeners": ["l1"],
            "period": "1ms",
            "payload": "200B",
            "max-latency": "50us",
        },
        "camera": {
            "talker": "t2",
            "listeners": ["l1", "l2"],
            "period": "2ms",
            "payload": "1000B",
            "max-latency": "100us",
        },
    }


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_unit_in_the_header_lets_cells_be_numbers(tmp_path: Path, ending: str):
    rows = [
        ("stream", "talker", "listeners", "period [us]", "payload (B)", "max-latency [ms]", "pcp"),
        ("motion", "t1", "l1", 500, 200, 0.05, 3),
    ]
    (motion,) = stream_lists.read(written(tmp_path, ending, rows)).values()
    assert (motion["period"], motion["payload"]) == ("500us", "200B")
    assert motion["max-latency"] == "0.05ms"
    assert motion["pcp"] == 3


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_empty_cell_leaves_its_key_out_and_others_are_as_an_intent_has_them(
    tmp_path: Path, ending: str
):
    rows = [
        (*HEADER, "ethertype", "window", "class", "pcp"),
        (*MOTION, "0x88f7", "{earliest: 10us}", "cyclic, slow", ""),
    ]
    (motion,) = stream_lists.read(written(tmp_path, ending, rows)).values()
    assert motion["ethertype"] == 0x88F7
    assert motion["window"] == {"earliest": "10us"}
    assert motion["class"] == ["cyclic", "slow"]
    assert "pcp" not in motion


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_has_commas_semicolons_or_tabs(tmp_path: Path, delimiter: str):
    file = tmp_path / "list.csv"
    lines = [delimiter.join(map(str, row)) for row in (HEADER, MOTION)]
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    assert [*stream_lists.read(file)] == ["motion"]


@pytest.mark.parametrize("ending", [".ods", ".xlsx"])
def test_of_several_sheets_that_called_streams_is_read(tmp_path: Path, ending: str):
    file = written(tmp_path, ending, [HEADER, MOTION])
    if ending == ".xlsx":
        book = openpyxl.load_workbook(file)
        book.create_sheet("notes", 0).append(["nothing here"])
        book.save(file)
    else:
        edit_ods(
            file,
            "<table:table table:name",
            '<table:table table:name="notes"/><table:table table:name',
        )
    assert [*stream_lists.read(file)] == ["motion"]


def edit_ods(file: Path, old: str, new: str) -> None:
    """Replace text in the content of a spreadsheet."""
    with zipfile.ZipFile(file) as archive:
        content = archive.read("content.xml").decode()
    assert old in content
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("content.xml", content.replace(old, new))


def test_cells_and_rows_that_a_spreadsheet_repeats_are_there_as_often(tmp_path: Path):
    file = written(tmp_path, ".ods", [HEADER, [None], MOTION])
    edit_ods(
        file,
        "<table:table-row><table:table-cell/></table:table-row>",
        '<table:table-row table:number-rows-repeated="7">'
        '<table:table-cell table:number-columns-repeated="16384"/></table:table-row>',
    )
    edit_ods(
        file,
        '<table:table-cell office:value-type="string"><text:p>50us',
        '<table:table-cell table:number-columns-repeated="2"><text:p>50us',
    )
    sheet = ods.read(file.read_bytes(), "list.ods")
    assert len(sheet.rows) == 9
    assert sheet.rows[8] == [*MOTION, "50us"]
    assert sheet.place(8, 3) == ": streams!D9"


@pytest.mark.parametrize(
    ("column", "name"), [(0, "A"), (25, "Z"), (26, "AA"), (701, "ZZ"), (702, "AAA")]
)
def test_columns_are_called_as_spreadsheets_call_them(column: int, name: str):
    assert letters(column) == name


# --- refused -------------------------------------------------------------------------------------

WRONG: list[tuple[Sequence[Row], tuple[str, str], str]] = [
    (
        [HEADER, MOTION, (*MOTION[:3], "1 fortnight", *MOTION[4:])],
        ("3", "A3"),
        "found motion again, expected a name for each stream, once",
    ),
    (
        [HEADER, ("motion", "t1", "l1", "1 fortnight", "200B", "50us")],
        ("2", "D2"),
        "streams.motion.period: found '1 fortnight', expected a duration such as 250us, 1ms",
    ),
    (
        [HEADER, ("motion", "t1", "l1", 250, "200B", "50us")],
        ("2", "D2"),
        "streams.motion.period: found 250, expected a duration such as 250us, 1ms",
    ),
    (
        [(*HEADER, "priorty"), (*MOTION, 3)],
        ("1", "G1"),
        "found the column 'priorty', expected one of",
    ),
    (
        [(*HEADER, "period [us]"), (*MOTION, 3)],
        ("1", "G1"),
        "found period again, expected each column once",
    ),
    (
        [HEADER[1:], MOTION[1:]],
        ("1", "A1"),
        "found no column stream, expected one",
    ),
    (
        [HEADER, ("", *MOTION[1:])],
        ("2", "A2"),
        "found no name, expected a name for each stream, once",
    ),
    (
        [HEADER, (*MOTION, "see Anna")],
        ("2", "G2"),
        "found 'see Anna' in a column without a name, expected none",
    ),
    (
        [(*HEADER, "route"), (*MOTION, "[s1, s2")],
        ("2", "G2"),
        "found '[s1, s2', expected one as an intent has it, such as [s1, s2]",
    ),
    (
        [HEADER[:5], MOTION[:5]],
        ("2", "A2"),
        "streams.motion: found no max-latency",
    ),
]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(("rows", "at", "why"), WRONG, ids=str)
def test_what_is_wrong_is_said_with_line_or_sheet_and_cell(
    tmp_path: Path, ending: str, rows: Sequence[Row], at: tuple[str, str], why: str
):
    place = f"list.csv:{at[0]}: " if ending == ".csv" else f"list{ending}: streams!{at[1]}: "
    assert refusal(written(tmp_path, ending, rows)).startswith(f"{place}{why}")


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_list_without_a_stream_is_refused(tmp_path: Path, ending: str):
    file = written(tmp_path, ending, [HEADER])
    assert (
        refusal(file) == f"{file.name}: found no stream, expected a row for each below the header"
    )


@pytest.mark.parametrize("ending", [".ods", ".xlsx"])
def test_what_is_no_spreadsheet_is_refused(tmp_path: Path, ending: str):
    file = tmp_path / f"list{ending}"
    file.write_text("stream,talker\n")
    assert refusal(file) == f"{file.name}: found no spreadsheet"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("other.xml", "<a/>")
    assert refusal(file).startswith(f"{file.name}: found no spreadsheet: ")


@pytest.mark.parametrize("ending", [".ods", ".xlsx"])
def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(tmp_path: Path, ending: str):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("content.xml", bytes(65 << 20))
    file = tmp_path / f"list{ending}"
    file.write_bytes(packed.getvalue())
    assert refusal(file) == f"{file.name}: found over 67108864 octets in it, expected fewer"


def test_entities_of_a_spreadsheet_are_not_resolved(tmp_path: Path):
    (tmp_path / "secret").write_text("a key")
    file = written(tmp_path, ".ods", [HEADER, MOTION])
    with zipfile.ZipFile(file) as archive:
        content = archive.read("content.xml").decode().replace("motion", "&its;")
    begin = f'<!DOCTYPE a [<!ENTITY its SYSTEM "file://{tmp_path}/secret">]>'
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("content.xml", begin + content.partition("?>")[2])
    assert "a key" not in refusal(file)


@pytest.mark.parametrize("name", ["list.xls", "list"])
def test_another_ending_is_refused(tmp_path: Path, name: str):
    (tmp_path / name).write_text("stream\n")
    assert refusal(tmp_path / name) == f"{name}: expected a name that ends in .csv, .ods, .xlsx"


def test_without_openpyxl_xlsx_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = written(tmp_path, ".xlsx", [HEADER, MOTION])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(CncError, match="need openpyxl, which is not installed") as refused:
        stream_lists.read(file)
    assert "tsn-control-plane[spreadsheet]" in str(refused.value.hint)


# --- there and back ------------------------------------------------------------------------------


def run(*words: object) -> str:
    done = CliRunner().invoke(cli.cnc, [*map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def streams_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text)["streams"]
    return found


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", ["line3", "ring6", "cell", "guarded", "bridged30", "crowded"])
def test_the_streams_of_an_intent_are_the_same_after_a_round_trip(
    tmp_path: Path, name: str, ending: str
):
    file, intent = tmp_path / f"list{ending}", intents.load(SCHEDULES / f"{name}.yaml")
    run("export", "streams", SCHEDULES / f"{name}.yaml", "-o", file)
    if not intent.streams:
        assert "found no stream" in refusal(file)
        return
    document = {**intent.document, "streams": streams_of(run("import", "streams", file))}
    assert intents.from_document(document, name).streams == intent.streams


def test_without_a_file_csv_is_printed():
    header, motion, *_ = run("export", "streams", LINE3).splitlines()
    assert header == "stream,talker,listeners,class,period,payload,max-latency,window,ip"
    assert motion.startswith("motion,t1,l1,cyclic,1ms,200B,50us,")


def test_the_same_streams_make_the_same_opendocument_file(tmp_path: Path):
    for name in ("one", "two"):
        run("export", "streams", LINE3, "-o", tmp_path / f"{name}.ods")
    assert (tmp_path / "one.ods").read_bytes() == (tmp_path / "two.ods").read_bytes()
