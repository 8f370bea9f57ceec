"""Tools for agents over the Model Context Protocol: for collections, memories and principles.

Only the command ``retrieval mcp`` imports these modules, which need the extra ``mcp``.
"""
