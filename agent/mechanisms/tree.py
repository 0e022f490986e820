"""Nodes under an interface below which several mechanisms are configured and reported."""

BRIDGE_PORT = "ieee802-dot1q-bridge:bridge-port"
TAPRIO = "tsn-linux:taprio"
