"""One switch over NETCONF: its session, what is sent to it (`payload`) and read (`readback`)."""

from cnc.switch.device import ConnectOptions

__all__ = ["ConnectOptions"]
