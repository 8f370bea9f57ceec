"""One sitting at the console: the tuning journey, verdicts that count, the keyboard alone, a database that stops."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Locator, Page, expect
from pydantic import SecretStr

from retrieval import Item, Platform, Settings
from retrieval.adapters.store.installation.embedded.home_server import HomeServer
from retrieval.adapters.store.installation.embedded.server import start_embedded
from retrieval.adapters.store.installation.schema import upgrade
from tests.acceptance.console.conftest import Ask, Open, Visitor
from tests.support.database import SCHEMA, make_fast
from tests.support.serving import serving

QUERY = "connection timeout"


@pytest.fixture
def fresh(ask: Ask) -> str:
    """The name of a new collection, in which words and meaning order the items differently."""
    name = f"sitting-{uuid.uuid4().hex[:8]}"

    async def make(platform: Platform) -> int:
        items = [
            Item(item_id=f"i{n}", title=f"Ticket {n}", body=f"{'connection ' * (n % 4)} timeout {'of a server ' * n}")
            for n in range(12)
        ]
        return (await (await platform.collection(name)).add(items)).added

    ask(make)
    return name


def searched(address: str, collection: str) -> tuple[int, list[str]]:
    """The version of the profile that an ordinary search over HTTP uses, and its hits."""
    answer = httpx2.post(f"{address}/v1/collections/{collection}/search", json={"query": QUERY})
    payload: dict[str, Any] = answer.raise_for_status().json()
    return payload["profile_version"], [hit["id"] for hit in payload["hits"]]


def tab_to(page: Page, target: Locator) -> None:
    """Press Tab until that element has the focus."""
    for _ in range(80):
        if target.evaluate("one => one === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {target}")


def test_a_profile_is_tuned_in_one_sitting(visitor: Visitor, address: str, fresh: str) -> None:
    """Search, move a slider, save, compare, activate, roll back: each step changes the searches of the API."""
    own_version, own_hits = searched(address, fresh)
    page = visitor.go(f"/console/search?collection={fresh}")
    page.get_by_role("searchbox").fill(QUERY)
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator(".results > li")).to_have_count(10)
    page.get_by_role("slider", name="dense").fill("0")
    tuned = page.get_by_role("region", name="Before and after")
    expect(tuned).to_contain_text(re.compile(r"[1-9]\d* places? changes?"))
    assert tuned.locator(".moved.up, .moved.down").count() > 0
    before, after = tuned.locator("ol").all()
    assert before.locator(".name").all_inner_texts() == [f"Ticket {hit[1:]}" for hit in own_hits]
    expected = after.locator(".name").all_inner_texts()
    assert searched(address, fresh) == (own_version, own_hits), "a preview stores nothing"

    page.get_by_label("Note").fill("words <b>alone</b>")
    with page.expect_response("**/search/preview*"):
        page.get_by_role("slider", name="lexical").press("ArrowRight")
    expect(page.get_by_label("Note")).to_have_value("words <b>alone</b>")
    page.get_by_role("button", name="Save as a new version").dblclick()
    new_version = own_version + 1
    expect(page.get_by_text(f"Saved as version {new_version}")).to_be_visible()
    assert searched(address, fresh) == (own_version, own_hits), "a saved version is not used before it is activated"

    page.get_by_role("link", name="compare and activate").click()
    expect(page.locator("#versions tbody tr").first).to_contain_text("words <b>alone</b>")
    page.get_by_label("Version", exact=True).select_option(str(new_version))
    page.get_by_label("against").select_option(str(own_version))
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#compared")).to_contain_text("no conclusion")
    expect(page.locator("#compared")).to_contain_text("effective sample")
    page.get_by_text("On judged queries").click()
    page.locator("#judged").fill(f"query,expected_id\n{QUERY},i3")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#compared")).to_contain_text("1 judged query")
    expect(page.locator("#compared")).to_contain_text("nDCG@10")
    page.locator("#judged").fill("no columns")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("alert")).to_contain_text("the judged queries: no column")
    expect(page.get_by_role("alert")).to_be_in_viewport()
    expect(page.locator("#compared")).to_be_empty()
    page.get_by_role("button", name=f"Use version {new_version}").click()
    expect(page.locator("#versions .done")).to_contain_text(f"now use version {new_version}")
    version, hits = searched(address, fresh)
    assert version == new_version
    assert [f"Ticket {hit[1:]}" for hit in hits] == expected
    assert hits != own_hits

    page.get_by_role("button", name=f"Use version {own_version}").click()
    expect(page.locator("#versions .done")).to_contain_text(f"now use version {own_version}")
    assert searched(address, fresh) == (own_version, own_hits)


def test_weights_that_are_saved_and_used_are_those_of_the_page(visitor: Visitor, fresh: str) -> None:
    """The answer is that of the new version, and the sliders reset to its weights."""
    page = visitor.go(f"/console/search?collection={fresh}&q=connection+timeout&w.dense=0.123")
    page.get_by_role("button", name="Save and use").click()
    expect(page.locator(".summary").first).to_contain_text("profile 2")
    expect(page.get_by_text("now use version 2")).to_be_visible()
    expect(page.get_by_role("region", name="Before and after")).to_have_count(0)

    assert page.get_by_role("slider", name="dense").get_attribute("data-own") == "0.123"
    assert "w." not in page.url
    assert f"collection={fresh}&q=connection" in page.url


def test_weights_are_ranked_and_saved_as_the_page_shows_them(visitor: Visitor, fresh: str, ask: Ask) -> None:
    """Even if the profile has changed since; the address holds them, so that another page shows the same."""
    page = visitor.go(f"/console/search?collection={fresh}&q=connection+timeout")

    async def change(platform: Platform) -> int:
        collection = await platform.collection(fresh, create=False)
        legs = {"dense": 0.0, "lexical": 1.0}
        return await collection.set_profile(replace(collection.profile, legs=legs), use=True)

    assert ask(change) == 2
    tuned = page.get_by_role("region", name="Before and after")
    ranked = tuned.locator(".two > div").nth(1).locator("ol .name")
    page.get_by_role("slider", name="lexical").press("Home")
    expect(ranked).to_have_count(10)
    expected = ranked.all_inner_texts()
    page.reload()
    expect(ranked).to_have_text(expected)
    page.get_by_role("button", name="Save and use").click()
    expect(page.get_by_text("now use version 3")).to_be_visible()
    expect(page.locator(".results h2")).to_have_text(expected)

    assert page.get_by_role("slider", name="lexical").get_attribute("data-own") == "0.0"


def test_a_verdict_counts_and_another_one_replaces_it(visitor: Visitor, fresh: str, ask: Ask) -> None:
    """Not helpful, helpful, then not helpful after all: the item has one verdict, and the Learning view shows it."""
    page = visitor.go(f"/console/search?collection={fresh}&q=connection+timeout")
    title = page.locator(".results h2").first.inner_text()

    async def standing(platform: Platform) -> tuple[int, int]:
        key = title.replace("Ticket ", "i")
        counts = (await (await platform.collection(fresh, create=False)).standings([key]))[key]
        return counts.uses, counts.successes

    for button, successes in (("Not helpful", 0), ("Helpful", 1), ("Not helpful", 0)):
        page.get_by_role("button", name=f"{button}: {title}", exact=True).click()
        expect(page.get_by_text(f"Noted: {button.lower()}")).to_be_visible()
        assert ask(standing) == (1, successes)
    visitor.go(f"/console/learning?collection={fresh}")
    expect(page.get_by_role("figure", name="Verdicts by item").locator("rect")).to_have_text(f"{title}: 0")
    expect(page.get_by_role("figure", name="Rising and sinking").locator("rect")).to_have_text(f"{title}: 1")
    contexts = page.get_by_role("figure", name="Reward by context")
    expect(contexts.locator("rect")).to_have_text("all feedback: 0")
    expect(contexts.locator(".whisker")).to_have_count(0)  # a single verdict says nothing about its spread


def test_the_keyboard_alone_tunes_and_saves(visitor: Visitor, address: str, fresh: str) -> None:
    """From the question to a saved version by Tab, arrows and the return key."""
    own_version, _ = searched(address, fresh)
    page = visitor.go(f"/console/search?collection={fresh}")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type(QUERY)
    page.keyboard.press("Enter")
    expect(page.locator(".results > li")).to_have_count(10)
    slider = page.get_by_role("slider", name="lexical")
    tab_to(page, slider)
    page.keyboard.press("End")
    expect(page.get_by_role("region", name="Before and after")).to_be_visible()
    expect(slider).to_be_focused()
    tab_to(page, page.get_by_label("Note"))
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")

    expect(page.get_by_text(f"Saved as version {own_version + 1}")).to_be_visible()
    expect(page.get_by_role("link", name="compare and activate")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#versions tbody tr").first).to_contain_text("by keyboard")


@pytest.fixture
def stoppable() -> Iterator[tuple[str, Callable[[], None], Callable[[], None]]]:
    """The address of a database of this test's own, and how it is stopped and started."""
    home = Path(tempfile.mkdtemp(prefix="retrieval-console-"))
    home.chmod(0o755)
    with start_embedded(home / "server") as server:
        make_fast(server.url)
        upgrade(server.url, SCHEMA)
        cluster = HomeServer.at(home / "server")
        yield server.url, lambda: cluster.stop(30), lambda: cluster.serve(time.monotonic() + 60)
    cluster.stop(timeout_seconds=30)
    shutil.rmtree(home, ignore_errors=True)


def test_a_stopped_database_is_reported_and_used_again(
    open_page: Open, console_settings: Settings, stoppable: tuple[str, Callable[[], None], Callable[[], None]]
) -> None:
    """A moved slider and a page both report the outage; typed and shown content stays, and works again afterwards."""
    url, stop, start = stoppable
    with serving(console_settings.changed(database_url=SecretStr(url))) as alone:
        visitor = open_page(alone)
        items = [{"id": f"i{n}", "text": f"connection {'timeout ' * n}"} for n in range(5)]
        response = httpx2.put(f"{alone}/v1/collections/small", json={})
        assert response.is_success, response.text
        assert httpx2.post(f"{alone}/v1/collections/small/items", json={"items": items}).is_success
        page = visitor.go("/console/search?collection=small&q=connection+timeout")
        expect(page.locator(".results > li")).to_have_count(5)
        in_a_thread(stop)
        page.get_by_role("slider", name="lexical").fill("0")
        expect(page.locator("#notice").get_by_role("alert")).to_contain_text("database")
        expect(page.locator(".results > li")).to_have_count(5)
        expect(page.get_by_role("searchbox")).to_have_value(QUERY)
        page.reload()
        expect(page.get_by_role("alert")).to_contain_text("database")
        assert url not in page.content()
        in_a_thread(start)
        page.get_by_role("link", name="Try again").click()

        expect(page.locator(".results > li")).to_have_count(5)


def in_a_thread(work: Callable[[], None]) -> None:
    """Do it where no browser's loop runs."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
