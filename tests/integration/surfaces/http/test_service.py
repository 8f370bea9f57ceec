"""Tenants' views of one platform, kept open while they are used."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from retrieval import Platform
from retrieval.domain.errors import DatabaseUnreachableError
from retrieval.surfaces.tenants import MOST_OPEN, PlatformOpening, ServedPlatforms, begin_holding, give_back


def is_open(platform: Platform) -> bool:
    """Whether it can be used."""
    return platform._database is not None  # noqa: SLF001 - the property would raise


def tenants_of(platform: Platform, most_open: int = MOST_OPEN) -> ServedPlatforms:
    """The platforms of a server whose own platform is open."""
    opening = PlatformOpening(lambda: platform)
    opening.opened = platform
    return ServedPlatforms(platform.settings, opening, most_open)


async def closed(tenants: ServedPlatforms) -> None:
    """Close the views alone: the fixture closes the platform."""
    tenants._host.opened = None  # noqa: SLF001
    await tenants.__aexit__()


async def test_the_first_requests_of_a_tenant_open_one_view(platform: Platform) -> None:
    """The view has the tenant's data, on the host's connections."""
    tenants = tenants_of(platform)
    name = f"{platform.settings.tenant}-other"
    first, *others = await asyncio.gather(*(tenants.of_tenant(name, {}) for _ in range(5)))
    assert all(platform is first for platform in others)
    assert first.tenant_id != platform.tenant_id
    assert first.database is platform.database
    await closed(tenants)
    assert not is_open(first)


async def test_of_too_many_views_the_one_unused_for_longest_is_closed(platform: Platform) -> None:
    """One in use never is; closed ones open again."""
    tenants = tenants_of(platform, most_open=2)
    a, b, c, d = (f"{platform.settings.tenant}-{letter}" for letter in "abcd")
    using: dict[str, Any] = {}
    first = await tenants.of_tenant(a, using)
    second = await _used_view(tenants, b)
    third = await _used_view(tenants, c)
    await _settled(tenants)
    assert [is_open(platform) for platform in (first, second, third)] == [True, False, True]
    give_back(using)
    await _used_view(tenants, c)
    await _used_view(tenants, d)
    await _settled(tenants)
    assert [is_open(platform) for platform in (first, third)] == [False, True]
    assert is_open(await tenants.of_tenant(a, {}))
    await closed(tenants)


async def test_a_client_that_hangs_up_does_not_end_the_closing_of_anothers_view(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other view's records are stored."""
    tenants = tenants_of(platform, most_open=1)
    a, b = (f"{platform.settings.tenant}-{letter}" for letter in "ab")
    first = await _used_view(tenants, a)
    entered, go_on, close = asyncio.Event(), asyncio.Event(), Platform.__aexit__

    async def slow(self: Platform, *error: Any) -> None:
        entered.set()
        await go_on.wait()
        await close(self, *error)

    monkeypatch.setattr(Platform, "__aexit__", slow)
    stranger = asyncio.create_task(_used_view(tenants, b))
    await entered.wait()
    assert is_open(first)
    stranger.cancel()
    await asyncio.wait([stranger])
    go_on.set()
    await _settled(tenants)
    assert not is_open(first)
    await closed(tenants)


async def test_a_request_holds_a_view_once(platform: Platform) -> None:
    """The number of uses does not matter; a view released twice counts once."""
    tenants = tenants_of(platform, most_open=1)
    name = f"{platform.settings.tenant}-a"
    first, other = dict[str, Any](), dict[str, Any]()
    view = await tenants.of_tenant(name, first)
    await tenants.of_tenant(name, first)
    await tenants.of_tenant(name, other)
    give_back(first)
    give_back(first)
    await _used_view(tenants, f"{name}-b")
    assert is_open(view)
    give_back(other)
    await _used_view(tenants, f"{name}-c")
    await _settled(tenants)
    assert not is_open(view)
    await closed(tenants)


async def test_resources_of_a_copied_request_are_released(platform: Platform) -> None:
    """Middleware may hand on a scope of its own making."""
    tenants = tenants_of(platform, most_open=1)
    scope: dict[str, Any] = {"path": "/"}
    begin_holding(scope)
    view = await tenants.of_tenant(f"{platform.settings.tenant}-a", {**scope, "path": "/other"})
    give_back(scope)
    await _used_view(tenants, f"{platform.settings.tenant}-b")
    await _settled(tenants)
    assert not is_open(view)
    await closed(tenants)


async def test_a_view_that_could_not_be_opened_is_tried_again(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the next request."""

    async def away(_: Platform) -> Platform:
        raise DatabaseUnreachableError("cannot reach it")

    tenants = tenants_of(platform)
    name = f"{platform.settings.tenant}-a"
    with monkeypatch.context() as patch:
        patch.setattr(Platform, "__aenter__", away)
        with pytest.raises(DatabaseUnreachableError):
            await _used_view(tenants, name)
    assert is_open(await _used_view(tenants, name))
    await closed(tenants)


async def _used_view(tenants: ServedPlatforms, name: str) -> Platform:
    """The view that a complete request used."""
    holder: dict[str, Any] = {}
    try:
        return await tenants.of_tenant(name, holder)
    finally:
        give_back(holder)


async def _settled(tenants: ServedPlatforms) -> None:
    """Wait until the views released after requests are closed."""
    await asyncio.gather(*tenants._closing)  # noqa: SLF001 - nobody else waits for it
