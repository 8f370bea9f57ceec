"""The console in a real browser, on real tickets; what needs a browser is skipped, loudly, where there is none."""

from __future__ import annotations

import asyncio
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request, expect, sync_playwright
from pydantic import SecretStr

from retrieval import Item, Platform, Settings, connect, read_items
from retrieval.adapters.embedders.hashing import HashingEmbedder
from tests.support.database import SCHEMA
from tests.support.serving import serving

TICKETS = Path(__file__).parents[3] / "examples" / "data" / "tickets" / "corpus.jsonl.gz"

ATTACK = "<img src=x onerror=\"document.title='attacked'\"><script>document.title='attacked'</script>"

PATIENCE_MS = 30_000
"""How long a page may take on a busy machine."""
expect.set_options(timeout=PATIENCE_MS)

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="package")
def console_settings(database_url: str) -> Settings:
    """The settings of the service."""
    tenant = f"console-{uuid.uuid4()}"
    return Settings(tenant=tenant, database_schema=SCHEMA, embedder="none", database_url=SecretStr(database_url))


Ask = Callable[[Callable[[Platform], Any]], Any]


@pytest.fixture(scope="package")
def ask(console_settings: Settings) -> Ask:
    """Runs a call on a platform of the same tenant, beside the service."""

    def run(work: Callable[[Platform], Any]) -> Any:
        async def working() -> Any:
            async with connect(settings=console_settings, embedder=HashingEmbedder()) as platform:
                return await work(platform)

        # The browser's loop runs in this thread.
        outcomes: list[Any] = []
        thread = threading.Thread(target=lambda: outcomes.append(asyncio.run(working())))
        thread.start()
        thread.join()
        assert outcomes, "the call failed; its error stands above"
        return outcomes[0]

    return run


@pytest.fixture(scope="package")
def address(console_settings: Settings, ask: Ask) -> Iterator[str]:
    """The service, with the tickets of the demo and one that attacks."""

    async def load(platform: Platform) -> int:
        tickets = await platform.collection("tickets")
        await tickets.ingest(islice(read_items(TICKETS), 250))
        attack = Item(
            item_id=f"evil{ATTACK}", title=f"attack {ATTACK}", body=f"zebra {ATTACK} zebra", tags=(f"tag{ATTACK}",),
            attributes={"priority": ATTACK[:36]},
        )  # fmt: skip
        await tickets.add([attack])
        return 1

    ask(load)
    with serving(console_settings) as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser of this machine. It goes with its module: its event loop keeps this thread from `async` tests."""
    if CHROMIUM is None:
        pytest.skip("NO BROWSER: the console is not tried; install one, such as: apt-get install chromium")
    with sync_playwright() as playwright:
        # As in the browsers of people, a page may be restored as it was left.
        kept = ["--disable-back-forward-cache"]
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], ignore_default_args=kept)
        yield opened
        opened.close()


@dataclass
class Visitor:
    """A page of the browser, and what happened in it."""

    page: Page
    address: str
    wrong: list[str] = field(default_factory=list)
    """Requests to other hosts, and errors of scripts."""

    def go(self, path: str) -> Page:
        """Open a page of the console."""
        self.page.goto(f"{self.address}{path}")
        return self.page

    def settled(self) -> Page:
        """The page once nothing is under way."""
        self.page.wait_for_load_state("networkidle")
        return self.page

    def accessibility(self, *rules: str) -> list[str]:
        """The serious findings of axe, of all its rules or of these."""
        # Other details of axe take a quarter of its time.
        options = {"resultTypes": ["violations"]} | ({"runOnly": list(rules)} if rules else {})
        violations = Axe().run(self.page, options=options).response["violations"]
        return [
            f"{violation['id']}: {node['html'][:150]}: {node['failureSummary'][:200]}"
            for violation in violations
            if violation["impact"] in ("serious", "critical")
            for node in violation["nodes"]
        ]


Open = Callable[..., Visitor]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens pages in a new browser context; at the end no page may have called another host or failed."""
    visitors: list[Visitor] = []

    def opened(address: str, *, width: int = 1280, scheme: Any = "light", **context: Any) -> Visitor:
        page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **context).new_page()
        page.set_default_timeout(PATIENCE_MS)
        visitor = Visitor(page, address)

        def check(request: Request) -> None:
            if not request.url.startswith((visitor.address, "data:")):
                visitor.wrong.append(f"asked another host: {request.url}")

        page.on("request", check)
        page.on("pageerror", lambda error: visitor.wrong.append(f"a script failed: {error}"))
        page.on("dialog", lambda dialog: visitor.wrong.append(f"a dialog: {dialog.message}"))
        visitors.append(visitor)
        return visitor

    yield opened
    for visitor in visitors:
        visitor.page.context.close()
    assert not [wrong for visitor in visitors for wrong in visitor.wrong]


@pytest.fixture
def visitor(open_page: Open, address: str) -> Visitor:
    """A page on the service that asks for no key."""
    return open_page(address)
