"""The version of the controller and of the switch's side: the only place that states it."""

__version__ = "0.2.0.dev0"
