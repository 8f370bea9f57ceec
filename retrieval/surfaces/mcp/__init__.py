"""Tools for agents by the Model Context Protocol: over collections, memories and principles.

Its modules need the extra ``mcp`` and are imported by the command ``retrieval mcp`` alone.
"""
