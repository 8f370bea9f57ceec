"""The frame in the browser: signing in, what a key may see, a lost database, screens, colours and accessibility."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Route, expect
from pydantic import SecretStr

from retrieval import Item, Platform, Settings
from tests.acceptance.console.conftest import Ask, Open, Visitor
from tests.support.serving import serving

PAGES = (
    "/console/search?collection=tickets&q=connection+timeout",
    "/console/profiles?collection=tickets",
    "/console/learning?collection=tickets",
    "/console/data?collection=tickets",
    "/console/data/item?collection=tickets&id=13401369",
    "/console/learning/item?collection=tickets&id=13401369",
    "/console/operations?collection=tickets",
    "/console/applications?app=tickets&title=timeout",
)
VIEWS = ("search", "profiles", "learning", "data", "operations", "applications")


def test_every_page_is_accessible(visitor: Visitor) -> None:
    """axe has no serious finding, with all that can be opened open; in the dark the colours alone differ."""
    for path in PAGES:
        page = visitor.go(path)
        visitor.settled()
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert visitor.accessibility() == [], path
        page.emulate_media(color_scheme="dark")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        assert visitor.accessibility("color-contrast") == [], path
        page.emulate_media(color_scheme="light")


def test_no_page_is_wider_than_a_narrow_screen(open_page: Open, address: str, ask: Ask) -> None:
    """At 360 pixels only tables scroll sideways, by themselves; fields have names; filters give way until opened."""

    async def put_long(platform: Platform) -> str:
        await (await platform.collection("long")).put(Item(item_id="long", title="no-space" * 60))
        return "long"

    visitor = open_page(address, width=360)
    for path in PAGES:
        page = visitor.go(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        assert visitor.accessibility("button-name", "label", "link-name", "select-name") == [], path
    page = visitor.go(PAGES[0])
    expect(page.locator(".filters fieldset").first).to_be_hidden()
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label(re.compile("^Critical")).check()
    page.wait_for_url(re.compile("f.priority=Critical"))
    visitor.settled()
    expect(page.locator(".filters fieldset").first).to_be_visible()
    page = visitor.go(f"/console/data/item?collection=long&id={ask(put_long)}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_every_view_of_nothing_says_what_is_missing(visitor: Visitor, ask: Ask) -> None:
    """Without a collection, and without items, searches or feedback, each page says what is missing."""

    async def make(platform: Platform) -> bool:
        return bool(await platform.collection("empty"))

    ask(make)
    texts = {
        "search": "This collection has no items yet", "profiles": "No hit was rated", "learning": "no feedback yet",
        "data": "There are no items here", "operations": "Nothing was recorded", "applications": "Describe a problem",
    }  # fmt: skip
    for view in VIEWS:
        page = visitor.go(f"/console/{view}")
        expect(page.get_by_role("alert")).to_have_count(0)
        page = visitor.go(f"/console/{view}?collection=empty")
        expect(page.locator("main")).to_contain_text(texts[view])
        expect(page.get_by_role("alert")).to_have_count(0)


def test_a_slow_or_missing_answer_is_shown(visitor: Visitor) -> None:
    """A moved slider whose answer takes more than a moment shows that it is under way; one without any says so."""
    page = visitor.go(PAGES[0])
    routes: list[Route] = []

    def hold(route: Route) -> None:
        routes.append(route)

    page.route("**/search/preview*", hold)
    expect(page.locator("#working")).to_be_hidden()
    page.get_by_role("slider").first.press("Home")
    expect(page.locator("#working")).to_be_visible()
    routes[0].continue_()
    expect(page.locator("#working")).to_be_hidden()
    page.unroute("**/search/preview*")
    page.route("**/search/preview*", lambda route: route.abort())
    page.get_by_role("slider").first.press("End")
    expect(page.get_by_role("alert")).to_contain_text("The service does not answer")


def test_the_theme_stays_chosen(visitor: Visitor) -> None:
    """The button changes it at once, and the next page has it too."""
    page = visitor.go("/console/search")
    page.get_by_role("button", name="Dark").click()
    visitor.go("/console/profiles")

    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_a_keyboard_is_enough(visitor: Visitor) -> None:
    """The first stop leads past the navigation, and each stop is seen."""
    page = visitor.go(PAGES[0])
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")

    expect(page.get_by_role("searchbox")).to_be_focused()


def key_of(ask: Ask, *scopes: str) -> str:
    """The text of a new key with these scopes."""

    async def make(platform: Platform) -> str:
        return (await platform.create_key("console", scopes=scopes)).text

    return str(ask(make))


@pytest.fixture(scope="module")
def guarded(address: str, console_settings: Settings) -> Iterator[str]:
    """The address of a service that asks for keys, while the module's tests run."""
    del address  # after its data
    with serving(console_settings, insecure_local=False) as served:
        yield served


def sign_in(visitor: Visitor, key: str) -> None:
    """Sign in as a person does."""
    visitor.page.get_by_label("API key").fill(key)
    visitor.page.get_by_role("button", name="Sign in").click()


def test_signing_in_leads_to_the_requested_page(open_page: Open, guarded: str, ask: Ask) -> None:
    """Without a key nothing is shown, a wrong one is refused; no script sees the cookie, which is the console's."""
    visitor = open_page(guarded)
    page = visitor.go("/console/profiles?collection=tickets")
    expect(page.get_by_label("API key")).to_be_visible()
    sign_in(visitor, "rtv_wrong")
    expect(page.get_by_role("alert")).to_contain_text("mistyped, expired or revoked")
    sign_in(visitor, key_of(ask, "read", "write", "feedback", "admin"))
    page.wait_for_url("**/console/profiles?collection=tickets")
    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["path"], cookie["sameSite"]) == (True, "/console", "Lax")
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("fetch('/v1/collections').then(one => one.status)") == 401
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()

    assert page.context.cookies() == []
    assert visitor.accessibility() == []


def test_back_shows_what_its_address_does(open_page: Open, guarded: str, ask: Ask) -> None:
    """After searches by script: an answer, a refusal, and without the cookie the way to sign in, and on to the page."""
    visitor = open_page(guarded)
    page = visitor.go("/console/search?collection=tickets&q=timeout")
    sign_in(visitor, key_of(ask, "read"))
    page.get_by_text("As JSON").click()
    for filter_, sent in (("{", "%7B"), ("", "")):
        page.get_by_label("filter", exact=True).fill(filter_)
        page.keyboard.press("Tab")  # a filter searches when it is left
        page.wait_for_url(re.compile(f"where={sent}(&|$)"))
        visitor.settled()
    page.go_back()
    expect(page.get_by_role("alert")).to_contain_text("not JSON")
    visitor.settled()  # the scripts of the page have to run before they can follow the address
    page.go_back()
    expect(page.locator(".results > li")).to_have_count(10)
    page.context.clear_cookies()
    page.go_forward()
    expect(page.get_by_label("API key")).to_be_visible()
    sign_in(visitor, key_of(ask, "read"))
    expect(page.get_by_role("alert")).to_contain_text("not JSON")


def test_signing_in_again_leads_back_to_the_page(open_page: Open, guarded: str, ask: Ask) -> None:
    """A script that finds the sign-in ended leads to the page that it ran on."""
    visitor, address = open_page(guarded), "/console/search?collection=tickets&q=timeout"
    page = visitor.go(address)
    key = key_of(ask, "read")
    sign_in(visitor, key)
    page.context.clear_cookies()
    page.get_by_role("button", name="Search", exact=True).click()
    sign_in(visitor, key)
    expect(page).to_have_url(f"{guarded}{address}")


def test_a_form_outlives_the_sign_in(open_page: Open, guarded: str, ask: Ask) -> None:
    """The user signs in again in another tab, and reloads the page: the typed text is stored."""

    async def put(platform: Platform) -> str:
        await (await platform.collection("typed")).put(Item(item_id="1", title="former"))
        return "/console/data/item?collection=typed&id=1"

    visitor, address = open_page(guarded), str(ask(put))
    page = visitor.go(address)
    key = key_of(ask, "read", "write")
    sign_in(visitor, key)
    page.get_by_label("title").fill("typed at length")
    page.context.clear_cookies()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing was changed")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Sign in in another tab").click()
    tab = Visitor(opened.value, guarded)
    sign_in(tab, key)
    expect(tab.page).to_have_url(f"{guarded}{address}")
    page.reload()
    expect(page).to_have_url(f"{guarded}{address}")
    expect(page.get_by_label("title")).to_have_value("typed at length")


def test_a_key_sees_what_it_may_do(open_page: Open, guarded: str, ask: Ask) -> None:
    """A key with only ``read`` sees no buttons that change data, and the service refuses their requests."""
    visitor = open_page(guarded)
    page = visitor.go("/console")
    sign_in(visitor, key_of(ask, "read"))
    page.wait_for_url("**/console/search")
    visitor.go("/console/search?collection=tickets&q=timeout&w.dense=0.1")
    expect(page.locator(".results > li")).to_have_count(10)
    expect(page.get_by_role("region", name="Before and after")).to_be_visible()
    for name in ("Helpful", "Save and use"):
        assert page.get_by_role("button", name=name).count() == 0
    visitor.go("/console/profiles?collection=tickets")
    assert page.get_by_role("button", name="Use version").count() == 0
    visitor.go("/console/data?collection=tickets")
    assert page.get_by_label("Into the collection").count() == 0
    visitor.go("/console/data/item?collection=tickets&id=13401369")
    assert page.get_by_role("button", name="Save").count() == 0
    visitor.go("/console/operations?collection=tickets")
    assert page.get_by_role("region", name="Doctor").count() == 0
    forms = ("profiles/use", "search/save", "feedback", "data/save", "data/delete", "data/upload", "data/store",
             "operations/reembed", "learning/learn", "data/preview")  # fmt: skip
    for path in (f"/console/{form}" for form in forms):
        script = f"fetch('{path}', {{method: 'POST', body: new FormData()}}).then(one => one.status)"
        assert page.evaluate(script) == 403, path


def test_a_key_that_may_not_read_sees_nothing_and_can_be_changed(open_page: Open, guarded: str, ask: Ask) -> None:
    """The page names the missing scope, and links to the form for another key."""
    visitor = open_page(guarded)
    page = visitor.go("/console")
    sign_in(visitor, key_of(ask, "feedback"))
    expect(page.get_by_role("alert")).to_contain_text("read")
    expect(page.locator("main")).to_contain_text("needs a key that may read")
    for view in VIEWS:
        visitor.go(f"/console/{view}?collection=tickets")
        expect(page.get_by_role("alert")).to_contain_text("read")
        assert page.locator("table, .results, option").count() == 0
    assert visitor.accessibility() == []
    page.get_by_role("button", name="Sign in with another key").click()
    expect(page.get_by_label("API key")).to_be_visible()


def test_no_other_site_can_send_a_form(address: str) -> None:
    """A form of another origin is refused before anything is done, and so is one that does not say whose it is."""
    foreign: tuple[dict[str, str], ...] = (
        {"sec-fetch-site": "cross-site"},
        {"origin": "https://evil.example"},
        {"origin": "http://["},
        {},
    )
    for headers in foreign:
        answer = httpx2.post(f"{address}/console/profiles/use", data={"collection": "tickets"}, headers=headers)
        assert answer.status_code == 421
    own = {"sec-fetch-site": "same-origin", "referer": "http://["}
    assert httpx2.post(f"{address}/console/profiles/use", data={"collection": "nosuch"}, headers=own).status_code == 404
    page = httpx2.get(f"{address}/console/search")

    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    assert httpx2.get(f"{address}/console/sign-in?then=//evil.example").status_code == 303


def test_programs_still_get_json_at_the_root(address: str) -> None:
    """Only what asks for a page is led to the console."""
    assert httpx2.get(address).json()["console"] == f"{address}/console"
    assert httpx2.get(address, headers={"accept": "text/html"}).headers["location"] == "/console"


def test_an_outage_of_the_database_is_shown_and_ends(open_page: Open, console_settings: Settings, address: str) -> None:
    """A page that cannot be built says so and offers a retry; the frame stays."""
    del address
    nowhere = console_settings.changed(database_url=SecretStr("postgresql://nobody@127.0.0.1:1/none"))
    with serving(nowhere) as unreachable:
        visitor = open_page(unreachable)
        page = visitor.go("/console/search?collection=tickets&q=x")
        expect(page.get_by_role("alert")).to_contain_text("database")
        expect(page.get_by_role("link", name="Try again")).to_be_visible()
        assert visitor.accessibility() == []


def test_without_the_extra_or_when_switched_off_nothing_is_there(
    console_settings: Settings, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service works as it did: JSON at the root for everybody, and no console."""
    del address
    with serving(console_settings.changed(http_console=False)) as off:
        assert httpx2.get(off, headers={"accept": "text/html"}).json()["service"] == "Retrieval"
        assert httpx2.get(f"{off}/console").status_code == 404
    monkeypatch.setattr("retrieval.surfaces.http.app.has_console", lambda _: False)
    with serving(console_settings) as without:
        assert "console" not in httpx2.get(without).json()
