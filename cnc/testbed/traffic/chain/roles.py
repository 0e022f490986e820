"""The components of a chain from an operator to a robot, its flows, and the functions of both.

As in Polachan and others, "TCPSbed: A Modular Testbed for Tactile Internet-Based Cyber-Physical
Systems", section II: `ms` is the operator's side, `ss` the robot's, `embsys` an embedded system,
`com` what connects it to the network, `ei` edge intelligence, and `srv` a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

OPERATOR, TELEOPERATOR = "tactile-operator", "tactile-teleoperator"
ROLES = (
    *(OPERATOR, "ms-embsys", "ms-com", "ms-ei", "srv"),
    *("ss-ei", "ss-com", "ss-embsys", TELEOPERATOR),
)

RECEIVE, SEND, CODE, DECODE, PREDICT = "receive", "send", "code", "decode", "predict"
_FUNCTIONS = "cnc.testbed.traffic.chain.functions"

# By flow, the functions and what each is where the operator names no other.
DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "kinematic": {
        RECEIVE: f"{_FUNCTIONS}:joints_of_a_hand",
        CODE: f"{_FUNCTIONS}:numbers",
        DECODE: f"{_FUNCTIONS}:of_numbers",
        "kinematics": f"{_FUNCTIONS}:kinematics",
        "inverse-kinematics": f"{_FUNCTIONS}:inverse_kinematics",
        PREDICT: "cnc.testbed.traffic.edge.predictors:hold",
        SEND: f"{_FUNCTIONS}:shown_numbers",
    },
    "haptic": {
        RECEIVE: f"{_FUNCTIONS}:touch",
        CODE: f"{_FUNCTIONS}:numbers",
        DECODE: f"{_FUNCTIONS}:of_numbers",
        "sense": f"{_FUNCTIONS}:sense",
        "feedback": f"{_FUNCTIONS}:feedback",
        PREDICT: "cnc.testbed.traffic.edge.predictors:hold",
        SEND: f"{_FUNCTIONS}:shown_numbers",
    },
    "audio": {
        RECEIVE: f"{_FUNCTIONS}:tone",
        CODE: f"{_FUNCTIONS}:upper_octets",
        DECODE: f"{_FUNCTIONS}:of_upper_octets",
        SEND: f"{_FUNCTIONS}:shown_check_sum",
    },
    "video": {
        RECEIVE: f"{_FUNCTIONS}:picture",
        CODE: f"{_FUNCTIONS}:compressed",
        DECODE: f"{_FUNCTIONS}:of_compressed",
        SEND: f"{_FUNCTIONS}:shown_check_sum",
    },
}

# What a component between the ends does with a message before it passes it on: between decoding
# and coding it. Others pass it on as it is.
WORK: Mapping[str, Mapping[str, Sequence[str]]] = {
    "kinematic": {"srv": ("kinematics", "inverse-kinematics"), "ss-ei": (PREDICT,)},
    "haptic": {"ss-embsys": ("sense",), "ms-ei": (PREDICT,), "ms-embsys": ("feedback",)},
    "audio": {},
    "video": {},
}


def steps(flow: str, role: str, *, is_first: bool, is_last: bool, predicts: bool) -> list[str]:
    """The functions that a component calls for each message of a flow, in this order; edge
    intelligence calls none in a flow in which it does not predict."""
    if is_first:
        return [RECEIVE, CODE]
    if is_last:
        return [DECODE, SEND]
    work = [each for each in WORK[flow].get(role, ()) if predicts or each != PREDICT]
    return [DECODE, *work, CODE] if work else []
