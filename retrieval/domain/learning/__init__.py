"""Feedback, and the statistics of items that follow from it."""
