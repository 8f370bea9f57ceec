"""Signals: numbers in [0, 1] about a candidate, of which a profile makes its score.

Each is a frozen value with its weight and its own numbers; ``catalogue`` knows them by name.
"""
