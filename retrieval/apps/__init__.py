"""Applications: each a profile and a thin, typed layer on ``Platform`` and ``Collection``."""
