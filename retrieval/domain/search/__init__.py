"""The request, the ranking and the answer of a search."""
