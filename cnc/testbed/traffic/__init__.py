"""Traffic through a lab: talkers, listeners, the flows between them, and what was measured."""
