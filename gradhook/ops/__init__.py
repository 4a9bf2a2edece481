"""The op table: every op once, a forward over `xp` and one gradient formula an input."""
