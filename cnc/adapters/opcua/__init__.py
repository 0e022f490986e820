"""An OPC UA server with the streams of a service, by OPC 10000-22 (Base Network Model).

The model has the state of streams and no way to ask for one: so the server is read. Its clients
are applications whose certificates an operator has put into a folder; a channel is signed and
encrypted, and nothing can be written, called or added.
"""

from cnc.adapters.opcua.server import Address, serve

__all__ = ["Address", "serve"]
