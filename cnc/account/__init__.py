"""Frames on their way, as the judges count them: they share no code with the planner."""
