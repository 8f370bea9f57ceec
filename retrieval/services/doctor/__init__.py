"""The doctor: a few statements read the facts about an installation, and pure checks turn them into findings."""
