"""Clocks that follow one another (IEEE 1588-2019), and how far they are apart."""
