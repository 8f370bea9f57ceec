"""Recorded searches, and figures about them."""
