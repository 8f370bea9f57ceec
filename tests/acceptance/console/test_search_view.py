"""Search and Profiles in the browser: a question, filters, weights that are moved, saved, compared and taken back."""

from __future__ import annotations

import re
from urllib.parse import quote

from playwright.sync_api import Page, Route, expect

from retrieval import Item, Platform, Profile
from tests.acceptance.console.conftest import ATTACK, Ask, Visitor

QUESTION = "/console/search?collection=tickets&q=connection+timeout"


def figures(page: Page, selector: str) -> list[float]:
    """The numbers of these elements."""
    return [float(text) for text in page.locator(selector).all_inner_texts()]


def test_the_first_page_leads_to_a_search(visitor: Visitor) -> None:
    """The address / redirects a browser to the console; after choosing a collection the user can type at once."""
    page = visitor.go("/")
    page.get_by_role("link", name="tickets").click()
    page.get_by_role("searchbox").fill("connection timeout")
    page.keyboard.press("Enter")

    expect(page.locator(".results > li")).to_have_count(10)
    assert "q=connection" in page.url
    assert page.locator("mark").count() > 3
    expect(page.locator(".summary")).to_contain_text("exact")


def test_the_contributions_add_up_and_the_bar_shows_them(visitor: Visitor) -> None:
    """The last row of the table is the sum of the others, and the score; the bar's parts have the same proportions."""
    page = visitor.go(QUESTION)
    hit = page.locator(".results > li").first
    hit.get_by_text("Why here?").click()
    *parts, total = figures(page, ".results > li:first-child tbody td:last-child")

    assert len(parts) >= 2
    assert abs(sum(parts) - total) < 2e-5 * len(parts)
    assert abs(total - float(hit.locator(".score").inner_text())) < 1e-4
    widths = [float(bar.get_attribute("width") or "") for bar in hit.locator(".bar rect").all()]
    assert widths == [round(100 * part / total, 2) for part in parts] or max(
        abs(width - 100 * part / total) for width, part in zip(widths, parts, strict=True)
    ) < 0.05  # fmt: skip


def test_filters_are_clicked_and_paged_through(visitor: Visitor) -> None:
    """A ticked value narrows the hits, stays in the address, and leaves others to tick; pages follow on each other."""
    page = visitor.go(QUESTION)
    page.get_by_label(re.compile("^Critical")).check()
    page.wait_for_url(re.compile("f.priority=Critical"))
    expect(page.get_by_label(re.compile("^Critical"))).to_be_checked()
    expect(page.get_by_label(re.compile("^Critical"))).to_be_focused()
    assert "w." not in page.url
    assert page.get_by_role("region", name="Before and after").count() == 0
    narrowed = page.locator(".results > li").count()
    page.get_by_label(re.compile("^Blocker")).check()
    page.wait_for_url(re.compile("f.priority=Critical&f.priority=Blocker|f.priority=Blocker&f.priority=Critical"))
    page.get_by_label(re.compile("^Blocker")).uncheck()
    page.wait_for_function("() => !location.search.includes('Blocker')")
    page.get_by_label(re.compile("^Critical")).uncheck()
    page.wait_for_function("() => !location.search.includes('Critical')")
    first = page.locator(".results h2").all_inner_texts()
    page.get_by_role("link", name="Next page").click()

    assert 0 < narrowed <= 10
    assert page.locator(".results").get_attribute("start") == "11"
    assert not set(first) & set(page.locator(".results h2").all_inner_texts())


def test_filters_that_are_ticked_one_after_another_all_hold(visitor: Visitor) -> None:
    """Also those that are ticked before the hits of the first are there."""
    page = visitor.go(QUESTION)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/console/search?*", hold)
    page.get_by_label(re.compile("^Critical")).check()
    expect(page.locator("#working")).to_be_visible()
    page.get_by_label(re.compile("^Blocker")).check()
    page.wait_for_timeout(200)
    held[-1].continue_()
    page.wait_for_url(re.compile("f.priority=Critical&f.priority=Blocker|f.priority=Blocker&f.priority=Critical"))
    for value in ("Critical", "Blocker"):
        expect(page.get_by_label(re.compile(f"^{value}"))).to_be_checked()


def test_a_filter_in_the_address_holds_and_is_shown(visitor: Visitor) -> None:
    """Also by a field that is not offered, in a link that a program makes; an unknown field is an error."""
    page = visitor.go(f"{QUESTION}&f.created=2021-09-15T11:42:00Z")
    expect(page.get_by_label(re.compile(r"^2021-09-15T11"))).to_be_checked()
    expect(page.locator(".results > li")).to_have_count(1)
    page = visitor.go(f"{QUESTION}&f.nowhere=x")

    expect(page.get_by_role("alert")).to_contain_text("nowhere")


def test_the_return_key_in_a_filter_searches_once(visitor: Visitor) -> None:
    """The key changes the filter, and sends the form: each search is recorded."""
    page = visitor.go(QUESTION)
    searches: list[str] = []
    page.on("request", lambda request: searches.append(request.url))
    page.get_by_text("As JSON").click()
    page.get_by_label("filter", exact=True).press_sequentially('{"priority": "Major"}')
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("where=%7B"))
    visitor.settled()

    assert len(searches) == 1


def test_an_attribute_named_as_a_word_of_filters_is_ticked(visitor: Visitor, ask: Ask) -> None:
    """Its values are counted and narrow the hits."""

    async def make(platform: Platform) -> bool:
        collection = await platform.collection("words of filters")
        await collection.add(Item(item_id=str(n), title="timeout", attributes={"or": f"v{n % 2}"}) for n in range(4))
        return True

    ask(make)
    page = visitor.go("/console/search?collection=words+of+filters&q=timeout")
    expect(page.locator(".results > li")).to_have_count(4)
    page.get_by_label(re.compile("^v1")).check()
    expect(page.locator(".results > li")).to_have_count(2)
    expect(page.get_by_label(re.compile("^v0"))).to_be_visible()


def test_feedback_reaches_the_statistics(visitor: Visitor, ask: Ask) -> None:
    """A click on Helpful counts once for the item; other tests may have rated it before."""

    async def standing(platform: Platform) -> tuple[float, float]:
        collection = await platform.collection("tickets", create=False)
        counts = (await collection.standings(["13401369"])).get("13401369")
        return (counts.uses, counts.successes) if counts else (0, 0)

    uses, successes = ask(standing)
    page = visitor.go("/console/search?collection=tickets&q=packages.json+release+label")
    page.get_by_role("button", name="Helpful: Filter deps with release labels", exact=True).click()
    expect(page.get_by_text("Noted: helpful")).to_be_visible()
    expect(page.get_by_role("button", name="Helpful: Filter deps with release labels", exact=True)).to_be_focused()

    assert ask(standing) == (uses + 1, successes + 1)
    page = visitor.go("/console/profiles?collection=tickets")
    expect(page.get_by_role("figure", name="Rewards by version")).to_contain_text("version 1, model 0")


def test_weights_go_back_to_exactly_the_profile_s(visitor: Visitor, ask: Ask) -> None:
    """This holds for any weights; and the preview uses the same corrected words as the search."""

    async def weigh(platform: Platform) -> int:
        docs = await platform.collection("weighed")
        await docs.add(Item(item_id=f"i{n}", title=f"connection {n}") for n in range(12))
        return await docs.set_profile(Profile(legs={"dense": 0.35, "lexical": 1 / 3}))

    ask(weigh)
    page = visitor.go("/console/search?collection=weighed&q=conection")
    dense, preview = page.get_by_role("slider", name="dense"), page.get_by_role("region", name="Before and after")
    own = dense.input_value()
    expect(page.locator(".note").first).to_contain_text("connection")
    expect(preview).to_have_count(0)
    dense.fill("0")
    expect(preview.locator("ol").first.locator(".name")).to_have_count(10)
    page.get_by_role("button", name="Back to the profile's").click()
    expect(preview).to_have_count(0)
    page.get_by_role("link", name="Next page").click()
    last = page.locator(".results > li")

    assert own == "0.35"
    expect(last).to_have_count(2)
    expect(page.get_by_role("link", name="Next page")).to_have_count(0)


def test_stored_texts_and_queries_are_escaped(visitor: Visitor) -> None:
    """Scripts in texts, titles, tags, ids, attributes and queries stay text."""
    page = visitor.go("/console/search?collection=tickets&q=zebra")
    expect(page.locator(".results h2").first).to_have_text(f"attack {ATTACK}")
    expect(page.locator(".results .tag").first).to_have_text(f"tag{ATTACK}")
    expect(page.locator(".filters")).to_contain_text(ATTACK[:36])
    page.locator(".results").first.get_by_text("Why here?").first.click()
    page.get_by_role("searchbox").fill(f'{ATTACK} "{ATTACK}')
    page.keyboard.press("Enter")
    visitor.settled()
    page.goto(
        f"{visitor.address}/console/search?collection=tickets&q=%3Cscript%3Edocument.title%3D'attacked'%3C/script%3E"
    )

    assert page.title() == "Search · Retrieval"
    assert page.locator("main script, main img").count() == 0


def test_stored_texts_are_escaped_in_every_other_view(visitor: Visitor, ask: Ask) -> None:
    """A rated item, its searches, a note on a profile and the item itself: wherever they are listed or drawn."""

    async def rate(platform: Platform) -> str:
        tickets = await platform.collection("tickets", create=False)
        hits = await tickets.search(f"zebra {ATTACK}", syntax=False)
        await platform.feedback(hits.retrieval_id, hits[0].item_id, helpful=True, actor=ATTACK)
        await tickets.set_profile(tickets.profile, note=ATTACK, use=False)
        await platform.recorded()
        return f"id={quote(hits[0].item_id)}"

    evil = ask(rate)
    page = visitor.go("/console/learning?collection=tickets")
    expect(page.get_by_role("figure", name="Verdicts by item")).to_contain_text("attack <img")
    searches = page.get_by_role("link", name=f"zebra {ATTACK}", exact=True)
    text = quote(ATTACK)
    of_tickets = "collection=tickets"
    addresses = [
        str(searches.first.get_attribute("href")), f"/console/learning/item?{of_tickets}&{evil}",
        f"/console/data/item?{of_tickets}&{evil}", f"/console/profiles?{of_tickets}",
        f"/console/data?{of_tickets}&after=2",
        f"/console/applications?app=tickets&title={text}", f"/console/data?collection={text}",
    ]  # fmt: skip
    for address in addresses:
        visitor.go(address)
        visitor.settled()
        assert page.title() != "attacked", address
        assert page.locator("main script, main img").count() == 0, address
        assert "onerror" in page.locator("main").inner_html(), address


def test_errors_are_shown_at_their_place(visitor: Visitor) -> None:
    """A filter that is not JSON, weights of 0 and a deleted collection are each reported with the reason."""
    page = visitor.go(QUESTION)
    page.get_by_text("As JSON").click()
    page.get_by_label("filter", exact=True).fill("{oops")
    page.get_by_label("filter", exact=True).press("Tab")
    expect(page.get_by_role("alert")).to_contain_text("not JSON")
    page.locator(".results > li").last.scroll_into_view_if_needed()
    expect(page.get_by_role("alert")).to_be_in_viewport()
    for slider in page.get_by_role("slider").all():
        slider.evaluate("one => { one.value = 0; one.dispatchEvent(new Event('input', {bubbles: true})); }")
    page.get_by_label("filter", exact=True).fill("")
    page.get_by_role("slider").first.evaluate("one => one.dispatchEvent(new Event('input', {bubbles: true}))")
    expect(page.locator("#tuned")).to_contain_text("a weight above 0")
    page = visitor.go("/console/search?collection=nowhere&q=x")

    expect(page.get_by_role("alert")).to_contain_text("nowhere")
    expect(page.get_by_role("link", name="Try again")).to_be_visible()
