"""Frames of end stations that leave at the time that their program states."""
