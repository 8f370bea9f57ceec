"""Work that a caller waits for: adding, changing, evaluating, tuning, comparing, examining."""
