"""TSN deployments of DDS systems (OMG DDS-TSN 1.0, in the XML of DDS-XML) to streams of a service.

    system = System.read(Path("robot.xml"))
    for stream in system.streams:
        system.fill(stream, service.put_stream("plc", stream.body))
    text = system.text()

The file says which DataWriter needs which period, size and latency on which nodes; what the CNC
answers is written where the same file says how frames look and when they are sent.
"""

from cnc.adapters.dds.system import DdsStream, System

__all__ = ["DdsStream", "System"]
