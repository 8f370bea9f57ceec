"""What touches the outside: the PostgreSQL store, embedders, file readers."""
