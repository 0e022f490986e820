"""Where the time of a command goes: components of a chain, and the links between them.

description  the file's keys                    sheets     tables of echo points and accuracy
experiment   what is run, and the report        pictures   of both
figures      differences, and what they are of  published  what the paper says
network      what the lab models, and bears
"""

from cnc.testbed.experiments.characterizer.experiment import Characterizer

__all__ = ["Characterizer"]
