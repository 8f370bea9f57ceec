"""Endpoints that speak OpenAI's API, whatever they are asked for: their refusals, trying again, counting."""

OPENAI_URL = "https://api.openai.com/v1"
