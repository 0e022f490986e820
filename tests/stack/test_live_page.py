"""The live page in a browser, served by a worker before a core that answers from memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from cnc import intent as intent_room
from cnc.page.data import page_data
from cnc.planner import plan as compute
from tests.stack.page_browser import HEIGHT, WIDTH, chromium, dark_desktop
from tests.stack.page_service import PageCore, Served, crowded, served, stream_name

RING6 = Path(__file__).parents[2] / "schedules" / "ring6.yaml"
HOSTILE = "</script><script>window.taken = 1</script><img src=x onerror='window.taken = 1'>"
WITHIN_S = 120
STREAM = "00-1B-21-00-00-01:00-2A"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return page_data(compute(intent_room.load(RING6)))


@pytest.fixture
def page(data: dict[str, Any], tmp_path: Path) -> Iterator[Served]:
    with served(PageCore(data), tmp_path) as running:
        yield running


def text(browser: Chrome, selector: str) -> str:
    script = "return document.querySelector(arguments[0])?.textContent ?? ''"
    return str(browser.execute_script(script, selector))


def until(condition: Callable[[], object]) -> None:
    give_up = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.1)


def sign_in(browser: Chrome, page: Served, who: str = "viewer") -> None:
    browser.get("about:blank")  # the page before may still be told a cookie
    browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
    browser.get(f"{page.url}/")
    assert browser.current_url == f"{page.url}/login"
    browser.find_element(By.ID, "token").send_keys(who)
    browser.find_element(By.CSS_SELECTOR, "button").click()


def opened(browser: Chrome, page: Served) -> None:
    sign_in(browser, page)
    until(lambda: "live" in text(browser, "#strip-seen"))


def test_a_token_signs_in_and_its_cookie_is_no_token(browser: Chrome, page: Served) -> None:
    sign_in(browser, page, "nobody")
    until(lambda: "no such token" in text(browser, "#trouble"))
    opened(browser, page)
    assert text(browser, "#who") == "viewer"
    assert text(browser, "h1") == "ring6"
    (cookie,) = browser.get_cookies()
    assert (cookie["name"], cookie["path"]) == ("__Host-cnc", "/")
    assert cookie["secure"]
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert "viewer" not in cookie["value"]
    browser.find_element(By.CSS_SELECTOR, "#session button").click()
    until(lambda: browser.current_url.endswith("/login"))
    assert browser.get_cookies() == []


def test_a_token_of_a_cuc_does_not_sign_in(browser: Chrome, page: Served) -> None:
    sign_in(browser, page, "plc")
    until(lambda: "for viewers, operators and admins" in text(browser, "#trouble"))
    assert browser.get_cookies() == []


def test_a_request_is_shown_as_it_comes(browser: Chrome, page: Served) -> None:
    opened(browser, page)
    page.tell("stream-placed", cuc="plc", stream_id=STREAM)
    until(lambda: STREAM in text(browser, "#requests tbody"))
    assert "placed" in text(browser, "#strip-request")


def test_drift_and_starvation_are_shown(browser: Chrome, page: Served) -> None:
    opened(browser, page)
    assert "none" in text(browser, "#strip-conditions")
    page.core.begin("drift", "s2", "s3", "no gate control list")
    page.core.begin("starved", "s4", "s5", "class 6 has 12 frames waiting")
    until(lambda: "2 conditions" in text(browser, "#strip-conditions"))
    assert "1 port" in text(browser, "#strip-starved")
    assert "no gate control list" in text(browser, "#conditions tbody")
    marks = "return [...document.querySelectorAll('#topology g.trouble text')]"
    assert browser.execute_script(f"{marks}.map((each) => each.textContent)") == ["s2 ⚠", "s4 ⚠"]


def test_what_goes_on_at_a_port_is_shown_with_the_reasons(browser: Chrome, page: Served) -> None:
    opened(browser, page)
    goes_on = "2 subflows (mode reliability: a copy by each path)"
    port = page.core.live["ports"][0]
    port["told"] = [goes_on]
    click(browser, "#show-ports")
    until(lambda: f"✓ as planned; {goes_on}" in text(browser, "#ports tbody"))
    page.core.note("mode-changed", "s1", "connection 7 is reliability, was hassle-free: its owner")
    until(lambda: "was hassle-free: its owner" in text(browser, "#notices tbody"))
    assert "mode-changed" in text(browser, "#notices tbody")


def test_how_far_clocks_are_off_is_shown(browser: Chrome, page: Served) -> None:
    opened(browser, page)
    until(lambda: "42 ns off, 1 µs allowed" in text(browser, "#strip-clocks"))
    mark = "return document.querySelector('#strip-clocks').className"
    before = browser.execute_script(mark)
    page.core.begin("clock-offset", "s2", None, "2 ms from the others")
    until(lambda: browser.execute_script(mark) != before)


def test_what_switches_count_along_the_way_of_a_stream_is_shown(
    browser: Chrome, page: Served
) -> None:
    opened(browser, page)
    click(browser, "#streams tbody:not(.edge) button")
    until(lambda: "123,456" in text(browser, "#counters"))
    hops = page.core.page["streams"][0]["hops"]
    rows = "return document.querySelectorAll('#counters tbody tr').length"
    assert browser.execute_script(rows) == len(hops)


def test_a_dark_desktop_gets_a_dark_live_page(browser: Chrome, page: Served) -> None:
    opened(browser, page)
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = browser.execute_script(ground)
    with dark_desktop(browser):
        assert browser.execute_script(ground) != light


def test_text_of_cucs_and_switches_stays_text(browser: Chrome, page: Served) -> None:
    page.core.begin("drift", "s2", "s3", HOSTILE)
    page.core.page["name"] = HOSTILE
    page.core.rolled_out(12, detail=HOSTILE)
    opened(browser, page)
    page.tell("stream-refused", cuc="plc", stream_id=STREAM, reason=HOSTILE)
    until(lambda: HOSTILE in text(browser, "#requests tbody"))
    for place in ("h1", "#conditions tbody", "#rollouts tbody"):
        until(lambda place=place: HOSTILE in text(browser, place))
    assert browser.execute_script("return window.taken") is None
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0


def test_another_plan_is_loaded_and_the_selected_stream_stays(
    browser: Chrome, page: Served
) -> None:
    opened(browser, page)
    browser.execute_script("document.querySelectorAll('#streams tbody button')[1].click()")
    chosen = text(browser, "#stream h2")
    page.core.page = {**page.core.page, "name": "ring6 anew", "number": 2}
    until(lambda: text(browser, "h1") == "ring6 anew")
    until(lambda: text(browser, "#stream h2") == chosen)


ELEMENTS = "return document.querySelectorAll('*').length"
SHOWN = (
    "return [...document.querySelectorAll('#streams tbody:not(.edge) button')]"
    ".map((each) => each.textContent)"
)


def test_ten_thousand_streams_cost_the_document_no_more_than_a_thousand(
    browser: Chrome, data: dict[str, Any], tmp_path: Path
) -> None:
    """Bounded by elements, which is what takes a browser seconds to lay out."""
    core = PageCore(crowded(data, 1_000))
    with served(core, tmp_path) as page:
        opened(browser, page)
        thousand = browser.execute_script(ELEMENTS)
        core.page = {**crowded(data, 10_000), "number": 2}
        opened(browser, page)
        assert text(browser, "#count") == "10,000 streams"
        assert browser.execute_script(ELEMENTS) < thousand + 20
        assert browser.execute_script(SHOWN) == [stream_name(n) for n in range(1_000)]


def test_every_one_of_ten_thousand_streams_is_found(
    browser: Chrome, data: dict[str, Any], tmp_path: Path
) -> None:
    """By its name, by paging, by sorting, and from elsewhere on the page."""
    core = PageCore(crowded(data, 10_000))
    with served(core, tmp_path) as page:
        opened(browser, page)
        later = browser.find_element(By.CSS_SELECTOR, "#streams tbody.edge:last-child button")
        assert later.text == "9,000 more"
        later.click()
        assert browser.execute_script(SHOWN) == [stream_name(n) for n in range(1_000, 2_000)]
        browser.find_element(By.CSS_SELECTOR, "#streams th button").click()
        browser.find_element(By.CSS_SELECTOR, "#streams th button").click()
        assert browser.execute_script(SHOWN)[0] == stream_name(
            0x2709
        )  # of 9,999 the last by digits
        browser.find_element(By.ID, "filter").send_keys(stream_name(5_000))
        until(lambda: browser.execute_script(SHOWN) == [stream_name(5_000)])
        browser.find_element(By.ID, "filter").clear()
        browser.find_element(By.ID, "filter").send_keys(" ")
        page.tell("stream-placed", cuc="plc", stream_id="00-1B-21-00-00-01:1F-40")
        until(lambda: "1F-40" in text(browser, "#requests tbody"))
        click(browser, "#requests tbody button")
        until(lambda: text(browser, "#stream h2") == stream_name(0x1F40))


def test_the_last_request_is_said_and_a_rollout_has_its_own_place(
    browser: Chrome, page: Served
) -> None:
    opened(browser, page)
    page.tell("stream-refused", cuc="plc", stream_id=STREAM, reason="too late", failure_code=21)
    page.tell("rollout-done", cuc=None, rollout=12, streams=1)
    until(lambda: "rollout 12" in text(browser, "#requests tbody"))
    assert "refused" in text(browser, "#strip-request")


def test_a_rollout_says_what_it_has_changed(browser: Chrome, page: Served) -> None:
    nothing: dict[str, Any] = {"removed": [], "refused": [], "placed": {}, "wanted": {}}
    changed = {**nothing, "same": False, "added": ["readings", "b"], "foundations": {}}
    page.core.diff = {**changed, "gates": {"s1/s2": {}}}
    for number in (11, 12):
        page.core.rolled_out(number)
    opened(browser, page)
    browser.find_element(By.ID, "show-rollouts").click()
    until(lambda: "service" in text(browser, "#rollouts tbody"))
    until(lambda: click(browser, "#rollouts tbody:not(.edge) button"))
    until(lambda: "2 streams added" in text(browser, "#stream"))
    assert "1 port with other gates" in text(browser, "#stream")
    click(browser, "#stream .names button")
    until(lambda: text(browser, "#stream h2") == "readings")


def click(browser: Chrome, selector: str) -> bool:
    script = "const it = document.querySelector(arguments[0]); it?.click(); return it !== null"
    return bool(browser.execute_script(script, selector))


def test_a_phone_shows_it_without_scrolling_sideways(browser: Chrome, page: Served) -> None:
    size = {"deviceScaleFactor": 2, "mobile": True, "width": 390, "height": 844}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        opened(browser, page)
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        assert wide == size["width"]
    finally:
        size = {"deviceScaleFactor": 1, "mobile": False, "width": WIDTH, "height": HEIGHT}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
