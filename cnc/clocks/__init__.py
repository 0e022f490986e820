"""How far clocks are apart, and whether they can be trusted, by what nodes report."""
