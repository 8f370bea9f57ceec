"""A search's parameters are spelled once: what a request may say is what ``Collection`` takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from retrieval.collection import Collection
from retrieval.surfaces.cli.commands.search import search
from retrieval.surfaces.http.routes.search import BatchRequest, SearchBody


def names_of(function: Callable[..., Any]) -> set[str]:
    """The names of the parameters."""
    return set(inspect.signature(function).parameters) - {"self"}


@pytest.mark.parametrize(("model", "method"), [(SearchBody, Collection.search), (BatchRequest, Collection.search_each)])
def test_a_body_has_the_arguments_of_the_method(model: type[SearchBody | BatchRequest], method: Any) -> None:
    """The route gives them on by name: a new one is written in the model alone."""
    assert set(model.model_fields) - {"explain"} == names_of(method)


def test_the_command_has_an_option_for_each() -> None:
    """``--plain`` is the opposite of ``syntax``, and the context's parts are options of their own."""
    assert names_of(Collection.search) - {"syntax", "context"} <= names_of(search)
