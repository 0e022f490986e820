"""The mechanisms of the controller, a folder each, with the agent's names."""
