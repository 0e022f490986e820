"""Quantities in text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc.keys.units import DURATION, FREQUENCY_OFFSET, RATE, SIZE, TIME_OFFSET, Quantity


@pytest.mark.parametrize(
    ("text", "value_ns"),
    [
        ("250us", 250_000),
        ("250\N{MICRO SIGN}s", 250_000),
        ("250\N{GREEK SMALL LETTER MU}s", 250_000),
        ("1.5 ms", 1_500_000),
        ("0.000000001s", 1),
        ("0ns", 0),
        ("2s", 2_000_000_000),
    ],
)
def test_durations_are_whole_nanoseconds(text: str, value_ns: int) -> None:
    assert DURATION.parse(text) == value_ns


@pytest.mark.parametrize(
    "text",
    ["", "1", "ms", "1MS", "-1ms", "1e3us", "1,5ms", "1ms\n", "1  ms", "٣ms", "0x1ms", 1, None],
)
def test_other_texts_are_no_durations(text: object) -> None:
    with pytest.raises(ValueError, match=r"^a duration such as 250us, 1ms$"):
        DURATION.parse(text)


@pytest.mark.parametrize("text", ["0.5ns", "1.0001us", "0.0000000001s"])
def test_a_duration_has_no_fraction_of_a_nanosecond(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a duration in whole ns$"):
        DURATION.parse(text)


def test_rates_are_decimal_and_sizes_are_octets() -> None:
    assert RATE.parse("2.5Gbps") == 2_500_000_000
    assert RATE.parse("9600bps") == 9_600
    assert SIZE.parse("1522B") == 1522


@pytest.mark.parametrize(
    ("quantity", "text", "meant"),
    [
        (RATE, "100Mbit", "100Mbps"),
        (RATE, "2.5 Gbit/s", "2.5Gbps"),
        (RATE, "100MBPS", "100Mbps"),
        (SIZE, "1522", "1522B"),
        (SIZE, 1522, "1522B"),
        (SIZE, "200 bytes", "200B"),
        (DURATION, "5msec", "5ms"),
    ],
)
def test_units_of_other_programs_are_refused_with_the_one_that_is_meant(
    quantity: Quantity, text: object, meant: str
) -> None:
    with pytest.raises(ValueError, match=rf"; did you mean {meant}\?$"):
        quantity.parse(text)


@pytest.mark.parametrize("text", ["fast", "1.2.3Mbit", "100Mfoo", "", None])
def test_nothing_is_meant_by_what_is_no_quantity_anywhere(text: object) -> None:
    with pytest.raises(ValueError, match=r"^a rate such as 100Mbps, 1Gbps$"):
        RATE.parse(text)


@pytest.mark.parametrize(
    ("value_ns", "text"),
    [(0, "0ns"), (999, "999ns"), (1_500_000, "1.5ms"), (7_820, "7.82us"), (10**9, "1s")],
)
def test_a_duration_is_written_in_its_largest_whole_unit(value_ns: int, text: str) -> None:
    assert DURATION.format(value_ns) == text


@given(st.sampled_from([DURATION, RATE, SIZE]), st.integers(0, 10**14))
def test_what_is_written_reads_back_exactly(quantity: Quantity, value: int) -> None:
    assert quantity.parse(quantity.format(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("300us", 300_000), ("+300us", 300_000), ("-7ms", -7_000_000), ("-0ns", 0)],
)
def test_a_time_offset_may_be_below_zero(text: str, value: int) -> None:
    assert TIME_OFFSET.parse(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("25ppm", 25_000), ("-40ppb", -40), ("0.5ppm", 500), ("-0.001ppm", -1)]
)
def test_a_frequency_offset_is_in_parts_per_million_or_billion(text: str, value: int) -> None:
    assert FREQUENCY_OFFSET.parse(text) == value


@pytest.mark.parametrize("text", ["--1ppm", "1", "ppm", "1%", "1ppm ", "\N{MINUS SIGN}1ppm", 1])
def test_other_texts_are_no_frequency_offsets(text: object) -> None:
    with pytest.raises(ValueError, match=r"^a frequency offset such as 25ppm, -40ppb$"):
        FREQUENCY_OFFSET.parse(text)


@given(st.sampled_from([TIME_OFFSET, FREQUENCY_OFFSET]), st.integers(-(10**14), 10**14))
def test_what_is_written_of_an_offset_reads_back_exactly(quantity: Quantity, value: int) -> None:
    assert quantity.parse(quantity.format(value)) == value
