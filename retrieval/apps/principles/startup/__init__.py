"""The start of a session: its surroundings are read and principles are chosen, all within a second.

``retrieval session-start`` runs before anything else of a session may: it opens the database as every command does,
and loads no SQLAlchemy; whatever goes wrong, the session starts without principles rather than not at all.
"""
