"""The HTTP service: parse, call the platform, present. See ``create_app`` in ``app``, and ``retrieval serve``."""
