"""Plant and controller of pendulum.yaml: a cart that balances a pole, in MuJoCo."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cnc.testbed.traffic.loop.robot import MujocoPlant

# Of a linear-quadratic regulator for a command that acts a period after its sample: N for each m,
# rad, m/s and rad/s that the cart and the pole are off.
GAINS = (26.0, 77.0, 20.0, 13.0)


def plant() -> MujocoPlant:
    """The model beside this file, by the names of its sensors and its actuator."""
    model = Path(__file__).with_name("pendulum.xml")
    return MujocoPlant(model, outputs=["position", "angle"], commands=["force"])


def controller(period_s: float) -> Callable[[float, tuple[float, float]], float]:
    """State feedback; velocities are the differences of two samples."""
    before = (0.0, 0.0)

    def step(reference: float, sample: tuple[float, float]) -> float:
        nonlocal before
        speeds = [(now - then) / period_s for now, then in zip(sample, before, strict=True)]
        before = sample
        position, angle = sample
        off = (position - reference, angle, *speeds)
        return sum(gain * each for gain, each in zip(GAINS, off, strict=True))

    return step
