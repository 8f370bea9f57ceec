"""Adapters to the outside: the PostgreSQL store, embedders, language models, file readers."""
