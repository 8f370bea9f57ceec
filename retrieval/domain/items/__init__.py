"""Collections, their items, and memories."""
