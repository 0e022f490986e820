"""The CNC as a service: one process that owns a network, and answers those who ask for streams.

    connections how many somebody may have, to a worker or to the core
    channel     framed JSON on a Unix socket, between the workers and the core
    calls       what may be asked, by whom, and what is refused how
    core        one writer: dispatches calls, decides
    access      tokens, roles, quotas
    admission   a request becomes a stream of the plan, or is refused
    failures    why a stream has no place, by the codes of table 46-15
    packed      documents that are longer than a message
    roller      brings what was decided to the switches
    store       what has to outlive the process
    live, aside documents of the page: what is known now; what takes seconds, in its own process
    documents   what `--json` prints, as answers
    watching    what the switches do now
    owner       the intent file, the plan that runs, and streams that were asked for

Workers (`web`) end TLS and parse what strangers send; they hold no key and no database.
"""
