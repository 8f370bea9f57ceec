"""One installation: its schema, who comes in, how it is opened and examined."""
