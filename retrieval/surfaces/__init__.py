"""Thin surfaces: parse, call, present."""
