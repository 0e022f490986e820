"""What two paths carry together, in virtual time, at the rates of a paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernel.conftest import FAR, inside
from tests.kernel.two_uplinks import agent, apply, goodput_bps, tree, two_uplinks

# Of both paths in Mb/s, as Singh et al. have them (IEEE Access 10, 2022); 10 and 40 ms there and
# back. All rates together pass several GB through the kernel's queues.
PAIRS = [
    (54, 70),
    (54, 300),
    (289, 300),
    (289, 500),
    (600, 300),
    (600, 500),
    (1300, 800),
    (1300, 1000),
]


@pytest.fixture
def ample_memory():
    """For buffers of as many octets as both paths have on the way."""
    limits = Path("/proc/sys/net/ipv4/tcp_mem")
    before = limits.read_text()
    limits.write_text("60000 70000 80000\n")  # pages
    yield
    limits.write_text(before)


@pytest.mark.virtual_time
@pytest.mark.usefixtures("ample_memory")
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_paths_together_carry_95_percent_of_what_each_carries_alone(tmp_path, first, second):
    shaped = {
        "w1": f"rate {first}mbit delay 5ms limit 5000",
        "w2": f"rate {second}mbit delay 20ms limit 5000",
    }
    tuning = {"maximum-buffer": 32_000_000}
    with two_uplinks(shaped), agent(tmp_path / "multipath.json") as switch:
        with inside(FAR):
            Path("/proc/sys/net/ipv4/tcp_rmem").write_text("4096 131072 32000000\n")
        apply(switch, tree("w2", tuning=tuning, default_mode="single-path"))
        alone_bps = [goodput_bps(server, 4) for server in ("10.1.0.1", "10.2.0.1")]
        apply(switch, tree("w2", tuning=tuning))
        both_bps = goodput_bps("10.1.0.1", 4)
    share = both_bps / sum(alone_bps)
    alone = " and ".join(f"{each / 1e6:.1f}" for each in alone_bps)
    print(f"alone {alone} Mb/s, together {both_bps / 1e6:.1f} Mb/s: {100 * share:.1f} %")
    assert share >= 0.95
    assert both_bps > max(alone_bps)
