"""Where the kernel keeps a filter: in software, in the hardware of the port, or in both.

`TCA_CLS_FLAGS_*` of linux/pkt_cls.h. A filter without any is offered to the driver, whose refusal
the kernel does not tell: only the flags that it lists afterwards do (fl_hw_replace_filter of
net/sched/cls_flower.c).
"""

from __future__ import annotations

SKIP_HW, SKIP_SW, IN_HW = 1, 2, 4


def flags_for(*, hardware_forwards: bool) -> int:
    """Where the kernel forwards, the driver need not be asked, which may have little room."""
    return 0 if hardware_forwards else SKIP_HW


def not_taken(port: str, filter_words: str, why: object) -> str:
    """The refusal of a filter that the hardware does not take, with what can be done."""
    return (
        f"port {port}: the hardware of the switch forwards the frames of this port, and does not "
        f"take {filter_words}: {why}; let its driver take filters (ethtool -K {port} hw-tc-offload "
        "on), or remove from the configuration of the port what asks for the filter"
    )
