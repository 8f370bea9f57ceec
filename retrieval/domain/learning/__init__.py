"""Feedback, and what is known of items by it."""
