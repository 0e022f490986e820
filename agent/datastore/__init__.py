"""sysrepo ↔ the ports: configuration in, operational data out.

`subscriptions` is the only module that speaks sysrepo; `desired` reads the configured tree and
`changes` brings it to the ports, each without knowing the other's neighbour.
"""
