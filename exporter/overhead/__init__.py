"""What the numbers mean: pure functions and small state machines, no I/O."""
