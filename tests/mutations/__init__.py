"""The mutation proof of the stream code: leave out one event record or wait, and a test fails."""
