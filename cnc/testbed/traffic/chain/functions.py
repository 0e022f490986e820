"""What components of a chain call for each message where the operator names no other functions.

`receive` has the number of a message and the seconds since the first, and returns a value; `code`
makes octets of a value and `decode` a value of octets; what is between them takes a value and
returns one; `send` returns how the record is to show the value that has come. The standard library
only: the program of an end station imports it.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from decimal import Decimal

from cnc.loops.model import Arm

Numbers = tuple[float, ...]

# Arms of two links in m, as `plant: {arm: …}`; nothing here depends on their drives.
_HAND = Arm((Decimal("0.35"), Decimal("0.30")), Decimal(1), 1)
_ROBOT = Arm((Decimal("0.40"), Decimal("0.30")), Decimal(1), 1)
_TURN_S = 1.0
_GRAM_N = 0.00981
_RATE_HZ = 8_000
_TONE_HZ = 440
_TONE_SAMPLES = 160
_TONE_PEAK = 16_000
_WIDTH = 32  # of a picture, in pixels


def joints_of_a_hand(_n: int, at_s: float) -> Numbers:
    """The angles of shoulder and elbow of a hand that draws a circle, in rad."""
    turned = 2 * math.pi * at_s / _TURN_S
    return _HAND.angles((0.45 + 0.1 * math.cos(turned), 0.1 * math.sin(turned)))


def kinematics(angles: Numbers) -> Numbers:
    """Where the hand is, by the angles of its joints: x and y in m from the shoulder."""
    return _HAND.tip(angles)


def inverse_kinematics(place: Numbers) -> Numbers:
    """The angles of a robot's joints by which its tip is there, in rad."""
    return _ROBOT.angles(place)


def touch(_n: int, at_s: float) -> Numbers:
    """What a force sensor gives of a surface that is pressed once a second, in grams."""
    return (50 * (1 - math.cos(2 * math.pi * at_s / _TURN_S)),)


def sense(grams: Numbers) -> Numbers:
    """The force in N."""
    return tuple(each * _GRAM_N for each in grams)


def feedback(forces: Numbers) -> Numbers:
    """What drives the actuator at the operator's hand: of 1 N and more all it has."""
    return tuple(max(-1.0, min(1.0, each)) for each in forces)


def tone(n: int, _at_s: float) -> list[int]:
    """The next 20 ms of a tone, 8,000 samples of 16 bits a second."""
    first = n * _TONE_SAMPLES
    return [
        round(_TONE_PEAK * math.sin(2 * math.pi * _TONE_HZ * each / _RATE_HZ))
        for each in range(first, first + _TONE_SAMPLES)
    ]


def picture(n: int, _at_s: float) -> bytes:
    """A grey picture of 32 by 32 pixels in which a bar moves to the right."""
    row = bytes(255 if x == n % _WIDTH else 4 * x for x in range(_WIDTH))
    return row * _WIDTH


def numbers(value: Numbers) -> bytes:
    """Of 8 octets each, so that no digit is lost."""
    return struct.pack(f"!{len(value)}d", *value)


def of_numbers(coded: bytes) -> Numbers:
    return struct.unpack(f"!{len(coded) // 8}d", coded)


def upper_octets(samples: Sequence[int]) -> bytes:
    """The upper 8 bits of each sample."""
    return struct.pack(f"!{len(samples)}b", *(each >> 8 for each in samples))


def of_upper_octets(coded: bytes) -> list[int]:
    return [each << 8 for each in struct.unpack(f"!{len(coded)}b", coded)]


def compressed(pixels: bytes) -> bytes:
    """By DEFLATE (RFC 1950), which loses nothing."""
    return zlib.compress(pixels)


def of_compressed(coded: bytes) -> bytes:
    return zlib.decompress(coded)


def shown_numbers(value: Numbers) -> str:
    """All digits of each."""
    return " ".join(map(repr, value))


def shown_check_sum(value: bytes | Sequence[int]) -> str:
    """The CRC-32 of what would be heard or seen."""
    octets = value if isinstance(value, bytes) else struct.pack(f"!{len(value)}h", *value)
    return f"{zlib.crc32(octets):08x}"
