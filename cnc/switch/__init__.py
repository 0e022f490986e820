"""One switch over NETCONF: the session, the configuration that is sent (`payload`) and the state
that is read (`readback`)."""

from cnc.switch.options import ConnectOptions

__all__ = ["ConnectOptions"]
