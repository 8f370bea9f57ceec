"""Modules and names are imported at their first use."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from retrieval.domain.lazy import LazyModule, exports


def test_a_module_is_imported_when_a_name_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a name that is replaced in the module is the new one here."""
    module = LazyModule("colorsys")
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)

    assert "colorsys" not in sys.modules
    assert module.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)
    monkeypatch.setattr("colorsys.rgb_to_hsv", lambda *_: "other")
    assert module.rgb_to_hsv(0, 0, 0) == "other"
    with pytest.raises(AttributeError):
        module.missing  # noqa: B018


def test_a_package_has_the_names_of_its_modules() -> None:
    """Each is looked up once; any other name is missing."""
    names: dict[str, Any] = {"__name__": "json"}
    load = exports(names, {"decoder": ("NaN",)})

    assert load("NaN") is names["NaN"]
    with pytest.raises(AttributeError, match="module 'json' has no attribute 'dump'"):
        load("dump")
