"""Feedback, and what is learned from it."""
