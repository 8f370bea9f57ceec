"""What happens to prompts before any model sees them."""

from __future__ import annotations

from retrieval.domain.errors import LLMRejectedError


def checked_prompt(prompt: str) -> str:
    """The prompt, encodable as UTF-8: half a surrogate pair becomes a question mark.

    Raises ``LLMRejectedError`` for what is no text, or none but space.
    """
    if not isinstance(prompt, str) or not prompt.strip():
        raise LLMRejectedError("the prompt is empty; say what is asked")
    return prompt.encode(errors="replace").decode()


def messages_of(prompt: str, system: str) -> list[dict[str, str]]:
    """The messages of a chat; an empty ``system`` is left out. Raises ``LLMRejectedError`` for an empty prompt."""
    asked = {"role": "user", "content": checked_prompt(prompt)}
    if not system.strip():
        return [asked]
    return [{"role": "system", "content": system.encode(errors="replace").decode()}, asked]
