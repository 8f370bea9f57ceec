"""Principles: lessons that prove themselves by use, given to an agent at the start and on demand."""
