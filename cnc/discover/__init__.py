"""The topology of an intent, drafted from what switches answer: `cnc discover`.

    targets    SWITCH[:PORT] ─► whom to ask
    asking     NETCONF: interfaces and LLDP neighbours of each switch
    cables     whose port is at the other end of whose: pure
    draft      switches, end stations and links under names an intent may have: pure
    lists      gate control lists that ports run, and classes for them: pure
    text       the draft as commented YAML, or as data for programs

LLDP data are the neighbours' own claims. Facts that one end alone reports, or none, are in the
draft as a comment: an operator reads it before anything is planned on it.
"""

from cnc.discover.asking import Answers, ask
from cnc.discover.draft import draft
from cnc.discover.model import Draft
from cnc.discover.targets import targets
from cnc.discover.text import as_data, as_yaml

__all__ = ["Answers", "Draft", "as_data", "as_yaml", "ask", "draft", "targets"]
