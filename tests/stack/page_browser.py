"""A headless Chromium for the page that `cnc show --html` writes, and a network large enough to
trouble it. No network is needed: the page is a file, and the driver is Debian's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from cnc.model import Intent
from tests.unit.planner_networks import MS, intent, network, seeded, stream

WIDTH, HEIGHT = 1280, 800
NEXT_PICTURE = (
    "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));"
)
_STATIONS = 3  # at each switch


@contextmanager
def chromium() -> Iterator[Chrome]:
    """A browser with a window of 1280 by 800 points that resolves no host name."""
    options = ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in (
        "--headless=new",
        "--no-sandbox",  # which Chromium refuses to make for root
        "--disable-dev-shm-usage",  # small in containers
        "--disable-gpu",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        "--ignore-certificate-errors",  # of a service: it makes its own
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = Chrome(options, Service("/usr/bin/chromedriver"))
    try:
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False},
        )
        yield browser
    finally:
        browser.quit()


def open_page(browser: Chrome, file: Path) -> None:
    """Load it, and wait until it has been drawn once."""
    browser.get(file.as_uri())
    browser.execute_async_script(
        "const done = arguments[0];"
        "const look = () => performance.getEntriesByName('shown').length"
        " ? done() : requestAnimationFrame(look); look();"
    )


def mesh(streams: int, switches: int) -> Intent:
    """Streams between stations, three at each switch of a ring with half as many chords."""
    chance = seeded(streams)
    cables = {(n, (n + 1) % switches) for n in range(switches)}
    while len(cables) < switches * 3 // 2:
        one, other = sorted(chance.sample(range(switches), 2))
        if (other, one) not in cables:
            cables.add((one, other))
    stations = [f"e{n}" for n in range(_STATIONS * switches)]
    net = network(
        *(f"s{one}-s{other}" for one, other in sorted(cables)),
        *(f"{station}-s{n // _STATIONS}" for n, station in enumerate(stations)),
        clock_error_ns=100,
        processing_ns=(1600, 2000),
    )
    wanted = []
    for number in range(streams):
        talker, listener = chance.sample(stations, 2)
        period = chance.choice((1, 2, 4, 8)) * MS
        wanted.append(
            stream(
                f"f{number}",
                talker,
                listener,
                traffic_classes=("cyclic", "slower"),
                period_ns=period,
                payload_octets=chance.choice((46, 128, 256, 512, 1024, 1500)),
                max_latency_ns=period,
            )
        )
    return replace(intent(net, *wanted), name=f"mesh{switches}")


@contextmanager
def dark_desktop(browser: Chrome) -> Iterator[None]:
    """Whoever looks prefers dark pages, while the block runs."""
    feature = {"name": "prefers-color-scheme", "value": "dark"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    try:
        browser.execute_async_script(NEXT_PICTURE)
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
