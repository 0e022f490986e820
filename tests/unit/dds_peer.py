"""A CycloneDDS system over loopback: `python -m tests.unit.dds_peer CAPTURE` writes samples of 64
octets until a reader, a process of its own, has one; CAPTURE has the packets (pcap)."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass

from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import array, uint8
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

OCTETS = b"\xab" * 60
_END_S = 60
_DOMAIN = """<CycloneDDS><Domain Id="any">
<General><Interfaces><NetworkInterface address="127.0.0.1"/></Interfaces>
<AllowMulticast>false</AllowMulticast></General>
<Discovery><Peers><Peer address="127.0.0.1"/></Peers>
<ParticipantIndex>auto</ParticipantIndex></Discovery>
<Tracing><PacketCaptureFile>{capture}</PacketCaptureFile></Tracing>
</Domain></CycloneDDS>"""
_QOS = Qos(Policy.Reliability.BestEffort)


@dataclass
class Pose(IdlStruct, typename="Pose"):
    octets: array[uint8, 60]  # type: ignore[valid-type]


def write(topic: Topic[Pose]) -> None:
    writer = DataWriter(topic.participant, topic, qos=_QOS)
    command = [sys.executable, "-m", "tests.unit.dds_peer"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as reader:
        while reader.poll() is None:
            writer.write(Pose(octets=[*OCTETS]))
            time.sleep(0.02)
    sys.exit(reader.returncode)


def read(topic: Topic[Pose]) -> None:
    reader = DataReader(topic.participant, topic, qos=_QOS)
    deadline = time.monotonic() + _END_S
    while not reader.take(1):
        if time.monotonic() > deadline:
            sys.exit("no sample came")
        time.sleep(0.02)


if __name__ == "__main__":
    os.environ["CYCLONEDDS_URI"] = _DOMAIN.format(capture="".join(sys.argv[1:]) or os.devnull)
    pose = Topic(DomainParticipant(0), "pose", Pose, qos=_QOS)
    if sys.argv[1:]:
        write(pose)
    else:
        read(pose)
