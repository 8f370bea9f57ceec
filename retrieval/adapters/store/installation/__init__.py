"""One installation: its schema and logins, opening and examining it."""
