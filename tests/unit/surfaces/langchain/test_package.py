"""The package: its names, and the imports that they cause."""

from __future__ import annotations

import importlib

import pytest

from retrieval.domain.errors import MissingExtraError
from retrieval.surfaces import langchain


def test_every_name_is_there() -> None:
    """Those that ``__all__`` lists."""
    for name in langchain.__all__:
        assert getattr(langchain, name) is not None


def test_without_the_extra_the_import_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the command."""
    monkeypatch.setattr("retrieval.adapters.extras.find_spec", lambda name: None if name == "langgraph" else object())

    with pytest.raises(MissingExtraError, match=r"needs langgraph; .*pip install 'retrieval-platform\[langchain\]'"):
        importlib.reload(langchain)
