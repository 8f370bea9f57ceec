"""A check that the libraries of the extra ``langchain`` are installed."""

from __future__ import annotations

import importlib.util

from retrieval.domain.errors import MissingExtraError
from retrieval.surfaces.listening import DISTRIBUTION


def require_extra() -> None:
    """Raise ``MissingExtraError`` if LangChain's core or LangGraph is not installed."""
    missing = [name for name in ("langchain_core", "langgraph") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"the surface for LangChain and LangGraph needs {' and '.join(missing)}; "
            f"install it with: pip install '{DISTRIBUTION}[langchain]'"
        )
