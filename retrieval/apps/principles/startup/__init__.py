"""The start of a session: its surroundings are read and principles are chosen, all within a blink.

``retrieval session-start`` runs before anything else of a session may: it imports the standard library and psycopg
alone, and whatever goes wrong, the session starts without principles rather than not at all.
"""
