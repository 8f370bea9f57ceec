"""Learning from feedback: statistics, learned reward, exploration, off-policy evaluation. No I/O, no clock."""
