"""The page of `cnc show --html` in a browser: it draws, answers, and runs nothing but itself."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image, ImageColor
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from cnc import intent as intent_room
from cnc import page
from cnc.model import Plan, PortRef
from cnc.planner import plan as compute
from cnc.support.format import microseconds as us
from tests.stack.page_browser import (
    HEIGHT,
    NEXT_PICTURE,
    WIDTH,
    chromium,
    dark_desktop,
    mesh,
    open_page,
)
from tests.unit.planner_networks import intent, network, stream
from tests.unit.shared_windows import example

SCHEDULES = Path(__file__).parents[2] / "schedules"
HOSTILE = "</script><script>window.taken = 1</script><img src=x onerror='window.taken = 1'>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with chromium() as started:
        yield started


@pytest.fixture(autouse=True)
def quiet(browser: Chrome) -> Iterator[None]:
    """Nothing in a test may make the browser complain, nor load anything beside the page."""
    browser.get_log("browser")
    yield
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


@pytest.fixture(scope="module")
def ring6() -> Plan:
    return compute(intent_room.load(SCHEDULES / "ring6.yaml"))


@pytest.fixture(scope="module")
def thousand() -> Plan:
    return compute(mesh(streams=1000, switches=40))


def shown(browser: Chrome, plan: Plan, directory: Path) -> None:
    """Open the page of a plan, and leave a picture of it beside the file."""
    file = directory / f"{plan.intent.name}.html"
    file.write_text(page.html(plan), encoding="utf-8")
    open_page(browser, file)
    browser.save_screenshot(str(file.with_suffix(".png")))


def colors(element: WebElement) -> Counter[tuple[int, int, int]]:
    """How many points of each colour a picture of the element has."""
    picture = Image.open(io.BytesIO(element.screenshot_as_png)).convert("RGB")
    return Counter({each: count for count, each in picture.getcolors(WIDTH * HEIGHT)})


def color(browser: Chrome, name: str) -> tuple[int, ...]:
    """The value of a colour of the page's style."""
    value = browser.execute_script(
        "return getComputedStyle(document.documentElement).getPropertyValue(arguments[0])",
        f"--{name}",
    )
    return ImageColor.getrgb(value)


def by_id(browser: Chrome, name: str) -> WebElement:
    return browser.find_element(By.ID, name)


def texts(browser: Chrome, selector: str) -> list[str]:
    """Of every element there is, in sight or not."""
    return browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)",
        selector,
    )


def range_us(browser: Chrome) -> tuple[float, float]:
    """From when to when the timeline shows."""
    browser.execute_async_script(NEXT_PICTURE)
    start, end = by_id(browser, "range").text.removesuffix(" µs").split(" to ")
    return float(start), float(end)


def choose(browser: Chrome, stream: str) -> None:
    """As a mouse does it, in the table."""
    button = next(
        each
        for each in browser.find_elements(By.CSS_SELECTOR, "#streams tbody button")
        if each.text == stream
    )
    button.click()
    browser.execute_async_script(NEXT_PICTURE)


def turn_wheel(browser: Chrome, by: int, *, right: int = 0) -> None:
    """Over the middle of the timeline, or so far to the right of it."""
    origin = ScrollOrigin.from_element(by_id(browser, "timeline"), right, 0)
    ActionChains(browser).scroll_from_origin(origin, 0, by).perform()


def test_every_gate_and_frame_of_a_small_network_is_drawn(
    browser: Chrome, ring6: Plan, tmp_path: Path
) -> None:
    shown(browser, ring6, tmp_path)
    drawn = colors(by_id(browser, "timeline"))
    for name in ("scheduled", "control", "best-effort", "shut", "frame-1", "frame-2"):
        assert drawn[color(browser, name)] > 20, name
    assert texts(browser, "#topology g text") == [
        *("s1", "s2", "s3", "s4", "s5", "s6"),
        *("axis1", "axis2", "camera", "ipc", "plc", "sensors"),
    ]
    assert "judged sound" in by_id(browser, "verdict").text


def test_a_dark_desktop_gets_a_dark_page(browser: Chrome, ring6: Plan, tmp_path: Path) -> None:
    shown(browser, ring6, tmp_path)
    light = color(browser, "scheduled")
    with dark_desktop(browser):
        drawn = colors(by_id(browser, "timeline"))
        assert drawn[color(browser, "ground")] > drawn[light]
        assert drawn[color(browser, "scheduled")] > 20
        assert color(browser, "scheduled") != light


def test_the_wheel_zooms_about_the_pointer_and_the_whole_cycle_comes_back(
    browser: Chrome, ring6: Plan, tmp_path: Path
) -> None:
    shown(browser, ring6, tmp_path)
    assert range_us(browser) == (0, 1000)
    turn_wheel(browser, -300, right=200)
    start, end = range_us(browser)
    assert 0 < start < end < 1000
    assert start > 1000 - end + 50  # right of the middle
    by_id(browser, "whole").click()
    assert range_us(browser) == (0, 1000)


def test_keys_move_the_timeline(browser: Chrome, ring6: Plan, tmp_path: Path) -> None:
    shown(browser, ring6, tmp_path)
    timeline = by_id(browser, "timeline")
    timeline.send_keys("+")
    assert range_us(browser) == (250, 750)
    timeline.send_keys(Keys.ARROW_RIGHT)
    assert range_us(browser) == (350, 850)
    timeline.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert range_us(browser) == (150, 650)
    timeline.send_keys("-")
    assert range_us(browser) == (0, 1000)
    timeline.send_keys(Keys.ARROW_DOWN)
    browser.execute_async_script(NEXT_PICTURE)
    assert browser.execute_script("return document.getElementById('timeline').scrollTop") > 0


def test_a_selected_stream_shows_its_way_and_its_times(
    browser: Chrome, ring6: Plan, tmp_path: Path
) -> None:
    shown(browser, ring6, tmp_path)
    choose(browser, "axis1-set")
    hops = ring6.streams["axis1-set"].hops
    ports = {str(hop.egress) for hop in hops}
    assert len(browser.find_elements(By.CSS_SELECTOR, "#topology .way")) == len(ports)
    assert set(texts(browser, "#topology .on-way text")) == {
        *("plc", "axis1", "s1", "s2", "s3", "s4", "s5", "s6"),
    }
    assert texts(browser, "#stream td:first-child") == [str(hop.egress) for hop in hops]
    assert texts(browser, "#stream td:nth-child(3)") == [us(hop.offset_ns) for hop in hops]
    rows = browser.execute_script("return timeline.ports.map(({port}) => plan.ports[port].name)")
    assert set(rows) == ports
    start, end = range_us(browser)
    assert start <= hops[0].offset_ns / 1000
    assert end >= max(hop.offset_ns for hop in hops) / 1000
    assert colors(by_id(browser, "timeline"))[color(browser, "frame-1")] > 200
    browser.save_screenshot(str(tmp_path / "selected.png"))
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert not browser.find_elements(By.CSS_SELECTOR, "#topology .way, #streams tr.chosen")


def test_frames_of_a_period_are_counted_beside_their_payload(
    browser: Chrome, tmp_path: Path
) -> None:
    streams = (
        stream("picture", "t", "l", frames=3, payload_octets=1_400),
        stream("single", "t", "l", payload_octets=1_500),
    )
    shown(browser, compute(intent(network("t-s1", "s1-l"), *streams)), tmp_path)
    assert texts(browser, "#streams tbody tr td:nth-child(4)") == ["3 × 1400", "1500"]  # noqa: RUF001
    choose(browser, "picture")
    assert "3 × 1400 B; latency" in texts(browser, "#stream p")[0]  # noqa: RUF001
    browser.find_element(By.XPATH, "//table[@id='streams']//th[4]/button").click()
    assert texts(browser, "#streams tbody button") == ["single", "picture"]


def test_a_selected_stream_shows_who_polices_it_and_takes_its_second_copies_out(
    browser: Chrome, tmp_path: Path
) -> None:
    shown(browser, compute(intent_room.load(SCHEDULES / "guarded.yaml")), tmp_path)
    choose(browser, "set-point")
    policed, numbered, passed = texts(browser, "#stream .guard")
    assert re.fullmatch(
        r"s1/plc drops what comes outside [\d.]+ – [\d.]+ µs, is longer than 86 octets behind its "  # noqa: RUF001
        r"EtherType, or beyond 86 octets in a period",
        policed,
    )
    assert numbered == "s1/plc numbers its frames"
    assert passed.startswith("s3 passes the first copy of each from s2 and s4 (history ")
    browser.save_screenshot(str(tmp_path / "guarded.png"))
    choose(browser, "picture")
    assert len(texts(browser, "#stream .guard")) == 1


def test_a_selected_stream_shows_what_switches_know_its_frames_by(
    browser: Chrome, tmp_path: Path
) -> None:
    plan = compute(intent_room.load(SCHEDULES / "bridged5.yaml"))
    shown(browser, plan, tmp_path)
    choose(browser, "set-point-1")
    mac = plan.addresses["set-point-1"].destination_mac
    assert texts(browser, "#stream .forwarding") == [f"to {mac}, VLAN 10, PCP 6"]
    choose(browser, "sound")
    (translated,) = texts(browser, "#stream .forwarding")
    assert translated == (
        "s1/cam knows its frames as IP to 192.0.2.4, UDP, to port 5004 and sends them to "
        "02:54:53:4e:00:00, VLAN 10, PCP 5; s4/panel sends them untagged to the listener"
    )
    by_id(browser, "filter").send_keys(plan.addresses["sound"].destination_mac)
    assert texts(browser, "#streams tbody tr:not([hidden]) button") == ["sound"]


def at_instant(browser: Chrome, port: PortRef, time_ns: int) -> ActionChains:
    """The pointer on the lane of a port, where each has one, a bit after an instant."""
    by_id(browser, "compact").click()
    browser.execute_async_script(NEXT_PICTURE)
    x, y = browser.execute_script(
        "const at = scene(timeline.canvas.getContext('2d'), timeline.pane.clientWidth, 0);"
        "const port = timeline.ports.find(({port}) => plan.ports[port].name === arguments[1]);"
        "const box = timeline.canvas.getBoundingClientRect();"
        "return [box.left + toX(at, arguments[0]), box.top + port.lanes[0].top + LANE / 2];",
        time_ns,
        str(port),
    )
    actions = ActionChains(browser)
    actions.w3c_actions.pointer_action.move_to_location(round(x) + 2, round(y))
    actions.perform()
    return actions


def test_a_click_on_a_frame_selects_its_stream(
    browser: Chrome, ring6: Plan, tmp_path: Path
) -> None:
    shown(browser, ring6, tmp_path)
    hop = ring6.streams["readings"].hops[0]
    actions = at_instant(browser, hop.egress, hop.offset_ns)
    assert f"readings: planned {us(hop.offset_ns)} to" in by_id(browser, "tip").text
    actions.w3c_actions.pointer_action.click()
    actions.perform()
    assert texts(browser, "#stream h2") == ["readings"]


def test_clicks_on_a_shared_window_select_its_streams_one_after_the_other(
    browser: Chrome, tmp_path: Path
) -> None:
    plan = example("line3", window_ns=60_000, slot_ns=100_000)
    shown(browser, plan, tmp_path)
    assert colors(by_id(browser, "timeline"))[color(browser, "shared")] > 200
    by_id(browser, "only").click()
    actions = at_instant(browser, PortRef("s1", "s2"), 100_000)
    assert by_id(browser, "tip").text.splitlines()[1] == (
        "window 100 to 160 µs, 4 streams: camera, motion, torque, valves"
    )
    selected = []
    for _ in range(5):
        actions.w3c_actions.pointer_action.click()
        actions.perform()
        # A stream that is chosen here does not move the picture, so that the next click counts.
        selected += texts(browser, "#stream h2")
    assert selected == ["camera", "motion", "torque", "valves", "camera"]
    browser.save_screenshot(str(tmp_path / "shared.png"))
    choose(browser, "torque")
    assert texts(browser, "#stream th") == [
        *("Port", "In queue", "Window", "Streams", "Received by"),
    ]
    assert texts(browser, "#stream td:nth-child(3)") == [
        *("0 – 60", "100 – 160", "200 – 260", "300 – 360"),  # noqa: RUF001
    ]
    assert texts(browser, "#stream td:nth-child(4)") == ["2", "4", "4", "3"]


def test_a_cable_leads_to_its_streams(browser: Chrome, ring6: Plan, tmp_path: Path) -> None:
    shown(browser, ring6, tmp_path)
    crossing = {
        name
        for name, planned in ring6.streams.items()
        if "s5/s4" in {str(hop.egress) for hop in planned.hops}
    }
    browser.execute_script(
        "topology.halves[plan.ports.findIndex(({name}) => name === 's5/s4')]"
        ".dispatchEvent(new MouseEvent('click'))"
    )
    assert by_id(browser, "filter").get_property("value") == "s5/s4"
    assert set(texts(browser, "#streams tbody tr:not([hidden]) button")) == crossing


def test_a_thousand_streams_are_listed_filtered_and_sorted(
    browser: Chrome, thousand: Plan, tmp_path: Path
) -> None:
    shown(browser, thousand, tmp_path)
    assert texts(browser, "#streams tbody button") == [f"f{number}" for number in range(1000)]
    assert by_id(browser, "count").text == "1,000 streams"
    ActionChains(browser).send_keys("/").perform()
    ActionChains(browser).send_keys("slower e7").perform()
    wanted = [
        name
        for name, stream in thousand.intent.streams.items()
        if thousand.class_of(name).name == "slower"
        and any(node.startswith("e7") for node in (stream.talker, *stream.listeners))
    ]
    left = texts(browser, "#streams tbody tr:not([hidden]) button")
    assert sorted(left) == sorted(wanted)
    assert by_id(browser, "count").text == f"{len(wanted)} of 1,000 streams"
    browser.find_element(By.XPATH, "//table[@id='streams']//th[7]/button").click()
    slack = [
        float(text) for text in texts(browser, "#streams tbody tr:not([hidden]) td:nth-child(7)")
    ]
    assert slack == sorted(slack)
    by_id(browser, "filter").send_keys(Keys.ESCAPE)
    first, second = texts(browser, "#streams tbody tr:not([hidden]) button")[:2]
    choose(browser, first)
    ActionChains(browser).send_keys(Keys.ARROW_DOWN, Keys.ENTER).perform()
    assert texts(browser, "#stream h2") == [second]


def test_the_ports_of_a_large_network_are_listed_with_their_load(
    browser: Chrome, thousand: Plan, tmp_path: Path
) -> None:
    shown(browser, thousand, tmp_path)
    by_id(browser, "show-ports").click()
    rows = texts(browser, "#ports tbody button")
    assert set(rows) == {str(port) for port in thousand.intent.network.links}
    last = browser.execute_script("return plan.rows - 1")
    browser.find_elements(By.CSS_SELECTOR, "#ports tbody button")[last].click()
    browser.execute_async_script(NEXT_PICTURE)
    in_sight = browser.execute_script(
        "return scene(timeline.canvas.getContext('2d'), 800, timeline.pane.clientHeight)"
        ".ports.map(({port}) => port)"
    )
    assert last in in_sight


def test_a_storm_of_zooming_leaves_the_page_answering(
    browser: Chrome, thousand: Plan, tmp_path: Path
) -> None:
    shown(browser, thousand, tmp_path)
    browser.execute_script(
        "window.pictures = 0; const draw = drawScene;"
        "drawScene = (scene) => { window.pictures += 1; draw(scene); };"
        "const box = timeline.pane.getBoundingClientRect();"
        "for (let turn = 0; turn < 2000; turn += 1) timeline.pane.dispatchEvent("
        "  new WheelEvent('wheel', {deltaY: turn % 3 ? -40 : 60, clientX: box.left + 400,"
        "                           cancelable: true}));"
    )
    start, end = range_us(browser)
    assert 0 < end - start < 8000
    assert browser.execute_script("return window.pictures") <= 3
    choose(browser, "f7")
    assert texts(browser, "#stream h2") == ["f7"]
    hops = thousand.streams["f7"].hops
    assert texts(browser, "#stream td:nth-child(3)") == [us(hop.offset_ns) for hop in hops]


def test_text_from_a_plan_stays_text(browser: Chrome, ring6: Plan, tmp_path: Path) -> None:
    wanted = {
        **ring6.intent.streams,
        HOSTILE: replace(ring6.intent.streams["readings"], name=HOSTILE),
    }
    streams = {**ring6.streams, HOSTILE: ring6.streams["readings"]}
    del wanted["readings"], streams["readings"], streams["picture"]
    hostile = replace(
        ring6,
        streams=streams,
        intent=replace(ring6.intent, name=f"ring{HOSTILE}", streams=wanted),
        algorithm=HOSTILE,
        refused={"picture": HOSTILE},
    )
    file = tmp_path / "hostile.html"
    file.write_text(page.html(hostile), encoding="utf-8")
    open_page(browser, file)
    choose(browser, HOSTILE)
    assert browser.execute_script("return window.taken") is None
    assert texts(browser, "#stream h2") == [HOSTILE]
    assert by_id(browser, "facts").text.endswith(f"planned by {HOSTILE}")
    assert browser.title.startswith(f"ring{HOSTILE} ")
    assert HOSTILE in texts(browser, "#streams tr.wrong td:last-child")


def test_a_script_that_is_not_ours_does_not_run(
    browser: Chrome, ring6: Plan, tmp_path: Path
) -> None:
    file = tmp_path / "changed.html"
    text = page.html(ring6).replace("<main>", "<script>window.taken = 1</script><main>")
    file.write_text(text, encoding="utf-8")
    open_page(browser, file)
    assert browser.execute_script("return window.taken") is None
    (complaint,) = browser.get_log("browser")
    assert "Content Security Policy" in complaint["message"]


def test_a_dark_page_is_printed_on_white(browser: Chrome, ring6: Plan, tmp_path: Path) -> None:
    shown(browser, ring6, tmp_path)
    with dark_desktop(browser):
        browser.execute_script(
            "addEventListener('beforeprint', () => { window.paper = timeline.colors.ground; });"
        )
        assert browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
        paper, screen = browser.execute_script("return [window.paper, timeline.colors.ground]")
    assert ImageColor.getrgb(paper) == (255, 255, 255)
    assert sum(ImageColor.getrgb(screen)) < 120


def test_every_node_of_a_car_has_its_name_beside_it_and_under_no_other(
    browser: Chrome, tmp_path: Path
) -> None:
    stations = [f"e{n}" for n in range(18)]
    ring = ["s1-s2", "s2-s3", "s3-s4", "s4-s1"]
    net = network(*ring, *(f"s{n % 4 + 1}-{name}" for n, name in enumerate(stations)))
    plan = compute(intent(net, *(stream(f"f{n}", f"e{n}", f"e{17 - n}") for n in range(9))))
    shown(browser, plan, tmp_path)
    assert texts(browser, "#topology g text.no-room") == []
    covered = browser.execute_script(
        """
        const named = (what) => [...document.querySelectorAll(`#topology g ${what}`)].map((each) =>
            [each.parentElement.querySelector("title").textContent, each.getBoundingClientRect()]);
        const middle = ({ x, y, width, height }) => [x + width / 2, y + height / 2];
        const within = ([x, y], box) =>
            box.left < x && x < box.right && box.top < y && y < box.bottom;
        return named("text").filter(([name, label]) =>
            named("circle").some(([, mark]) => within(middle(mark), label))).map(([name]) => name);
        """
    )
    assert covered == []
