"""Control loops that are closed over the network: a requirement on two streams."""
