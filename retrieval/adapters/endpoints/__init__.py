"""Endpoints with OpenAI's API: their refusals, retries and counters."""

OPENAI_URL = "https://api.openai.com/v1"
