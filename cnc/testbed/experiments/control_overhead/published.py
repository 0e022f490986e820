"""What the paper says that the lab's figures stand beside."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Times:
    """What the control plane takes, in seconds: one row of the paper's table I."""

    generation_s: float
    netconf_s: float
    parsing_s: float

    @property
    def total_s(self) -> float:
        return self.generation_s + self.netconf_s + self.parsing_s

    @property
    def ratio(self) -> float:
        """Generation over NETCONF."""
        return self.generation_s / self.netconf_s

    def document(self) -> dict[str, float]:
        return {
            **{name: round(value, 6) for name, value in asdict(self).items()},
            "total_s": round(self.total_s, 6),
        }


# Papathanail, Mamatas, Papadimitriou: "Towards the Integration of TAPRIO-based Scheduling with
# Centralized TSN Control", table I, by the number of switches; its machine is that of section IV.
PUBLISHED = {
    1: Times(0.128, 0.026, 0.019),
    2: Times(0.257, 0.024, 0.019),
    3: Times(0.482, 0.025, 0.020),
    4: Times(0.625, 0.025, 0.020),
    5: Times(0.803, 0.022, 0.021),
    6: Times(1.017, 0.024, 0.021),
    7: Times(1.198, 0.025, 0.020),
    8: Times(1.379, 0.024, 0.020),
    9: Times(1.599, 0.025, 0.022),
    10: Times(1.781, 0.027, 0.021),
}
PUBLISHED_MACHINE = {
    "cpu": "virtual machine",
    "cores": "8",
    "memory": "8 GB",
    "kernel": "5.4.0-139",
    "software": "Ubuntu 20.04.1, Mininet 2.3.1 with multi-queue interfaces",
}
