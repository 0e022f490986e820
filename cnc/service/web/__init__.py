"""The workers of a service: they end TLS and parse what strangers send.

    confinement what the process gives up first
    server      the process: connections, their limits, uvicorn
    guard       what every request must be before anything reads it
    app         the routes of all rooms as one application
    bodies      JSON from strangers, with limits
    schema      the YANG of the UNI: a stream is what it says, or is refused with the place
    resources   /restconf/data: domain, CUC and stream
    patches     a plain patch of a stream (RFC 8040 4.6.1)
    operations  /restconf/operations and the action
    discovery   what RFC 8040 has a client find first
    events      the event stream
    api         /api/v1: the documents of `--json`, tokens, OpenAPI
    errors      refusals as RFC 8040 has them
    asking      the channel to the core

A worker holds no key but that of TLS, and no database. It passes the token of each request on: the
core decides whose it is.
"""
