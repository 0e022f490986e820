"""The laboratory: emulated networks, traffic through them, and what is measured there.

lab          emulated networks, in namespaces or kernels of their own
traffic      talkers, listeners, measurements; traces, loops, chains, replays; `tsn-probe`
experiments  a description, figures and pictures for each
remote       commands on another kernel
intent       the keys that an intent has for a lab
cli          `cnc lab`
app          what `cnc lab` does, as functions, also for notebooks
registration what of these the controller has

It is a distribution of its own (`tsn-control-plane-lab`). It imports the controller. The controller
imports `registration` alone, by `cnc.laboratory`, where it is installed.
"""
