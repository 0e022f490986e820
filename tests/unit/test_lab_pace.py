"""A lab whose virtual time passes with the clock of the machine."""

from __future__ import annotations

from cnc.testbed.lab.kernels.pace import SLICE_NS, Pace


class Machine:
    """Its clock; virtual time is at 5 s when it is at 100 s."""

    def __init__(self) -> None:
        self.now_ns = 100_000_000_000
        self.pace = Pace(5_000_000_000, lambda: self.now_ns)

    def wait_s(self, virtual_ns: int) -> float:
        """From so long after 5 s of virtual time on."""
        return self.pace.wait_s(5_000_000_000 + virtual_ns)


def test_a_slice_passes_once_the_clock_of_the_machine_has():
    machine = Machine()
    assert machine.wait_s(0) == SLICE_NS / 1e9
    machine.now_ns += SLICE_NS - 1000
    assert machine.wait_s(0) == 1e-6
    machine.now_ns += 1000
    assert machine.wait_s(0) == 0
    assert machine.wait_s(SLICE_NS) == SLICE_NS / 1e9


def test_a_lab_that_is_a_little_behind_catches_up():
    machine = Machine()
    machine.now_ns += 5 * SLICE_NS
    assert [machine.wait_s(n * SLICE_NS) for n in range(5)] == [0] * 5
    assert machine.wait_s(5 * SLICE_NS) > 0


def test_a_lab_that_is_far_behind_stays_behind():
    machine = Machine()
    machine.now_ns += 3_000_000_000
    assert machine.wait_s(0) == 0
    assert machine.wait_s(SLICE_NS) == SLICE_NS / 1e9
