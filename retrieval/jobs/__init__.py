"""Long work: ingest, evaluation, tuning, index building."""
