"""The start of a session: reads its surroundings and chooses principles, all within a second.

``retrieval session-start`` runs before the session: it opens the database as every command does, but loads no
SQLAlchemy. Whatever goes wrong, the session starts, without principles.
"""
