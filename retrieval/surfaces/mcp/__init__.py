"""Principles for agents, by the Model Context Protocol: it parses, calls the store of principles and presents.

Its modules need the extra ``mcp`` and are imported by the command ``retrieval mcp`` alone.
"""
