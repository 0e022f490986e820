"""A server of the Model Context Protocol (MCP, 2025-11-25 and 2026-07-28) before a service.

A program on the other side reads documents and asks for streams by tools. Much of what it gets was
written by strangers, on end stations and switches, and the program may take text for instructions:
so every answer is data between marks that nobody can foresee (`answers`), and a change is made only
after a person has confirmed it on a terminal that the program does not hold (`terminal`).
"""

from cnc.adapters.mcp.server import serve
from cnc.adapters.mcp.terminal import Terminal

__all__ = ["Terminal", "serve"]
