"""The start of a session: reads its surroundings and chooses principles, within a second.

``retrieval session-start`` runs before the session. It opens the database like every command, but loads no SQLAlchemy.
If anything fails, the session starts without principles.
"""
