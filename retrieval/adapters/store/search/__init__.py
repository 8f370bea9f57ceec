"""Searches: the statement that finds candidates, leg by leg, and the indexes that it reads."""
