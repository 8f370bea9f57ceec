"""Modules and names that are imported at their first use, so that a process starts without what it may never need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


class LazyModule:
    """Stands for the module of that name; each access goes to the module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


def exports(names: dict[str, Any], homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of the package with these ``globals``; ``homes``: its public names by the module below it."""
    package = names["__name__"]

    def load(name: str) -> Any:
        home = next((home for home, known in homes.items() if name in known), None)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        names[name] = value = getattr(import_module(f"{package}.{home}"), name)
        if callable(value):
            value.__module__ = package
        return value

    return load
