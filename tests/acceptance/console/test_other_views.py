"""Data, Operations and Learning in the browser: files brought in, items changed, figures that fit their SQL."""

from __future__ import annotations

import asyncio
import random
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from playwright.sync_api import Page, Route, expect

from retrieval import Context, Item, Platform, Settings
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.installation.queue import begin_run, end_run, note_progress
from retrieval.apps.memories import MemoryStore
from retrieval.apps.metaphors import MetaphorCorpus
from retrieval.apps.principles import PrincipleStore
from retrieval.collection import handle_of
from retrieval.domain.records.slate import Slot
from retrieval.domain.search.profile_parts import Exploration, PolicyName, Recording
from tests.acceptance.console.conftest import ATTACK, Ask, Open, Visitor
from tests.support.database import SCHEMA

CSV = f"""nr,subject,description,labels,prio
1,Cannot log in,The password is refused,login;web,High
2,"{ATTACK.replace('"', '""')}",It takes a minute,web,Low
,No id,bad,,
3,,,with\u202eout text,
"""


def test_a_table_is_mapped_previewed_and_stored(visitor: Visitor, tmp_path: Path, ask: Ask) -> None:
    """A CSV whose columns have other names: a preview of each choice, then what was stored and what was refused."""
    file = tmp_path / "mine.csv"
    file.write_text(CSV)
    page = visitor.go("/console/data")
    page.get_by_label("Into the collection").fill("brought")
    page.get_by_label("Drop a CSV or JSON Lines file").set_input_files(file)
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview")).to_contain_text("no column 'id'")
    for field, column in (("id", "nr"), ("title", "subject"), ("text", "description"), ("tags", "labels")):
        page.locator("#mapping").get_by_label(field, exact=True).select_option(column)
    expect(page.locator("#preview tbody tr").nth(1)).to_contain_text(ATTACK)
    expect(page.locator("#preview")).to_contain_text("refused")
    assert str(tmp_path.parent) not in page.locator("#preview").inner_text()
    page.route("**/console/data/preview", lambda _: None)  # previews without an answer hold up nothing
    for column in ("description", "subject"):
        page.locator("#mapping").get_by_label("title", exact=True).select_option(column)
    page.get_by_role("button", name="Store the items").click()
    expect(page.get_by_text("Stored.")).to_be_visible()
    expect(page.locator("#upload")).to_contain_text("line 4")
    expect(page.locator("#upload .note").nth(0)).to_contain_text("1 of 3 items has no text")
    expect(page.locator("#upload .note").nth(1)).to_have_text("control and format characters were removed from 1 text")

    async def stored(platform: Platform) -> dict[str, Item]:
        return await (await platform.collection("brought", create=False)).get(["1", "2"])

    items = ask(stored)
    assert items["1"].title == "Cannot log in"
    assert items["1"].tags == ("login", "web")
    assert items["1"].attributes == {"prio": "High"}
    assert items["2"].title == ATTACK


def test_a_folder_is_split_into_chunks_and_unreadable_files_are_listed(visitor: Visitor, tmp_path: Path) -> None:
    """Each document becomes chunks; a kind that is not read is named with its number."""
    folder = tmp_path / "handbook"
    (folder / "sub").mkdir(parents=True)
    (folder / "leave.md").write_text("# Leave\n\nParents get fourteen weeks.\n")
    (folder / "sub" / "pay.md").write_text("# Pay\n\nPaid at the end of the month.\n")
    (folder / "picture.xyz").write_bytes(b"\0")
    (folder / "table.csv").write_text("id,title\n")
    page = visitor.go("/console/data")
    page.get_by_label("Into the collection").fill("handbook")
    page.get_by_label("Or a folder of documents").set_input_files(folder)
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("region", name="Left out")).to_contain_text("table.csv")
    page.get_by_role("button", name="Store them").click()
    expect(page.get_by_text("Stored.")).to_be_visible()
    expect(page.locator("#upload")).to_contain_text(".xyz")
    expect(page.get_by_role("region", name="Refused")).to_contain_text("table.csv")
    page.get_by_role("link", name="Search it").click()
    page.get_by_role("searchbox").fill("fourteen weeks")
    page.keyboard.press("Enter")

    expect(page.locator(".results")).to_contain_text("handbook/leave.md")


def test_of_what_holds_nothing_nothing_is_stored(visitor: Visitor, tmp_path: Path, ask: Ask) -> None:
    """An empty file, and one whose lines are all refused: each is reported, and the preview creates no collection."""
    file = tmp_path / "bad.jsonl"
    page = visitor.go("/console/data")
    page.get_by_label("Into the collection").fill("nothing")
    for content, message in (("", "is empty"), ('{"title": "no id"}\n', "refused")):
        file.write_text(content)
        page.get_by_label("Drop a CSV or JSON Lines file").set_input_files(file)
        page.get_by_role("button", name="Preview").click()
        expect(page.locator("#upload")).to_contain_text(message)

    async def names(platform: Platform) -> set[str]:
        return {collection.name for collection in await platform.collections()}

    assert "nothing" not in ask(names)
    page.get_by_role("button", name="Store the items").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was stored")
    expect(page.get_by_role("region", name="Refused")).to_contain_text("line 1")
    assert page.get_by_role("link", name="Search it").count() == 0


def test_a_table_is_stored_only_with_columns_that_fit(visitor: Visitor, tmp_path: Path, ask: Ask) -> None:
    """Until then no button is offered, a request without it makes no collection, and the columns can be chosen."""
    file = tmp_path / "noid.csv"
    file.write_text("ref,words\nA1,connection lost\n")
    page = visitor.go("/console/data")
    page.get_by_label("Into the collection").fill("no id")
    page.get_by_label("Drop a CSV or JSON Lines file").set_input_files(file)
    page.get_by_role("button", name="Preview").click()
    box, button = page.locator("#preview .problem"), page.get_by_role("button", name="Store the items")
    expect(box).to_contain_text("noid.csv: no column 'id'; there are: 'ref', 'words'; choose the column of the id")
    assert button.count() == 0
    page.get_by_label("text", exact=True).select_option("words")
    expect(box).to_contain_text("there are: 'ref', 'words'; choose")
    page.evaluate("document.getElementById('mapping').requestSubmit()")
    expect(page.locator("#notice")).to_contain_text("no column 'id'")

    async def names(platform: Platform) -> set[str]:
        return {collection.name for collection in await platform.collections()}

    assert "no id" not in ask(names)
    page.get_by_label("id", exact=True).select_option("ref")
    button.click()
    expect(page.get_by_text("Stored.")).to_be_visible()
    assert "no id" in ask(names)


def test_files_may_take_longer_than_other_requests(visitor: Visitor, tmp_path: Path) -> None:
    """Over a slow line, an upload outlasts the time that the page gives to any other request."""
    file = tmp_path / "slow.csv"
    file.write_text("id,text\n1,words\n")
    page = visitor.go("/console/data")
    page.evaluate("() => { htmx.config.timeout = 200; }")
    page.get_by_label("Into the collection").fill("slow")
    page.get_by_label("Drop a CSV or JSON Lines file").set_input_files(file)

    def delay(route: Route) -> None:
        page.wait_for_timeout(600)
        route.continue_()

    page.route("**/console/data/upload", delay)
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview")).to_contain_text("words")


def test_progress_under_way_does_not_replace_the_next_preview(visitor: Visitor, tmp_path: Path) -> None:
    """The browser abandons the request for the progress of storing, whose answer would take the preview's place."""
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    first.write_text('{"id": "1", "title": "Stored first"}\n')
    second.write_text('{"id": "2", "title": "Shown next"}\n')
    page = visitor.go("/console/data")
    page.get_by_label("Into the collection").fill("two files")
    page.get_by_label("Drop a CSV or JSON Lines file").set_input_files(first)
    page.get_by_role("button", name="Preview").click()
    progress = "**/console/data/progress*"
    page.route(progress, lambda _: None)  # it is answered by nobody before the click
    with page.expect_request(progress) as asked:
        page.get_by_role("button", name="Store the items").click()
    page.get_by_label("Drop a CSV or JSON Lines file").set_input_files(second)
    with page.expect_event("requestfailed", lambda request: request == asked.value):
        page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview")).to_contain_text("Shown next")


def test_an_item_is_changed_once_and_deleted(visitor: Visitor, ask: Ask) -> None:
    """A change is stored; one made on a version that is no more is refused; a deleted item is gone."""

    async def make(platform: Platform) -> bool:
        await (await platform.collection("edited")).add([whole])
        return True

    async def stored(platform: Platform) -> Item:
        return (await (await platform.collection("edited", create=False)).get([whole.item_id]))[whole.item_id]

    whole = Item(item_id="a/b?c", title="before", body="\n\nlate", tags=("x;y", "z"), kind="k")
    ask(make)
    page = visitor.go("/console/data?collection=edited")
    page.get_by_role("link", name="a/b?c").click()
    late = page.context.new_page()
    late.goto(page.url)
    page.get_by_label("title").fill("after")
    page.get_by_label("attributes, as JSON").fill('{"level": 3}')
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="after")).to_be_visible()
    assert ask(stored) == replace(whole, title="after", attributes={"level": 3})
    late.get_by_label("text", exact=True).fill("\n typed for an hour <b>")
    for _ in range(2):
        late.get_by_role("button", name="Save").click()
        expect(late.get_by_role("alert")).to_contain_text("a/b?c")
        expect(late.get_by_label("text", exact=True)).to_have_value("\n typed for an hour <b>")
    late.get_by_role("link", name="The item as it is stored").click()
    expect(late.get_by_role("heading", name="after")).to_be_visible()
    page.get_by_text("Delete this item").click()
    page.get_by_role("button", name="Delete it").click()

    expect(page.get_by_text("There are no items here.")).to_be_visible()


def test_what_was_typed_outlives_a_refusal(open_page: Open, address: str, ask: Ask) -> None:
    """Also without scripts: the form comes again with the error, and can be corrected and sent."""

    async def make(platform: Platform) -> bool:
        await (await platform.collection("refused")).add([Item(item_id="a", title="before", tags=("x", "y"))])
        return True

    ask(make)
    page = open_page(address, java_script_enabled=False).go("/console/data/item?collection=refused&id=a")
    page.get_by_label("title").fill("after")
    page.get_by_label("attributes, as JSON").fill('{"level": 3,}')
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("not JSON")
    expect(page.get_by_label("title")).to_have_value("after")
    expect(page.get_by_label("tags")).to_have_value("x\ny")
    page.get_by_label("attributes, as JSON").fill('{"level": 3}')
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="after")).to_be_visible()
    expect(page.get_by_label("attributes, as JSON")).to_have_value(re.compile('"level": 3'))


def test_a_form_can_be_sent_again_from_a_restored_page(visitor: Visitor, ask: Ask) -> None:
    """The browser's Back restores it as it was left, with what was typed."""

    async def make(platform: Platform) -> bool:
        await (await platform.collection("restored")).add([Item(item_id="a", title="before")])
        return True

    ask(make)
    page = visitor.go("/console/data/item?collection=restored&id=a")
    page.get_by_label("title").fill("after")
    page.get_by_label("attributes, as JSON").fill('{"level": 3,}')
    page.evaluate("window.isKept = true")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("not JSON")
    page.go_back(wait_until="commit")
    expect(page.get_by_label("title")).to_have_value("after")
    assert page.evaluate("window.isKept"), "the browser read the page anew"
    page.get_by_label("attributes, as JSON").fill('{"level": 3}')
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="after")).to_be_visible()


def test_many_items_do_not_freeze_a_page(visitor: Visitor, ask: Ask) -> None:
    """The number of elements of a page does not grow with the items; an answer for 5,000 items names its index."""

    async def make(platform: Platform) -> int:
        many, chance = await platform.collection("many"), random.Random(7)
        words = [f"{first}{last}" for first in "abcdefghij" for last in ("lpha", "eta", "amma", "elta", "psilon")]
        await many.add(Item(item_id=f"{n:05}", title=f"item {' '.join(chance.sample(words, 8))}") for n in range(5_000))
        return (await many.info()).items

    assert ask(make) == 5_000
    page = visitor.go("/console/data?collection=many")
    page.get_by_role("link", name="Next page").click()
    expect(page.get_by_role("link", name="00050", exact=True)).to_be_visible()
    assert elements(visitor) < 1500
    visitor.go("/console/search?collection=many&q=item+alpha")
    expect(page.locator(".results > li")).to_have_count(10)
    assert elements(visitor) < 1500
    expect(page.locator(".summary")).to_contain_text("approximate: ")
    visitor.go("/console/operations?collection=many")
    expect(page.get_by_role("row", name=re.compile("^many"))).to_contain_text("MB")
    assert elements(visitor) < 1500


def elements(visitor: Visitor) -> int:
    """The number of elements of the page."""
    return int(visitor.page.evaluate("document.querySelectorAll('*').length"))


def test_operations_show_how_a_collection_stands(visitor: Visitor, ask: Ask) -> None:
    """Sizes, latency, recall against its contract, runs of jobs, findings with remedies, and a re-embedding's cost."""

    async def measured(platform: Platform) -> bool:
        tickets = await platform.collection("tickets", create=False)
        await tickets.search("timeout")
        await tickets.learn()
        values = {"name": "tickets", "tenant": platform.tenant_id}
        async with platform.database.transaction(platform.tenant_id) as connection:
            await connection.execute(
                "INSERT INTO recall_measurements (collection_id, space_id, measured_at, bucket, samples, recall, "
                "short_pages, effort) SELECT c.collection_id, c.space_id, now() - n * interval '1 hour', 'all', 20, "
                "0.97 + n * 0.01, 0, 100 FROM collections c, generate_series(0, 2) n "
                "WHERE c.name = %(name)s AND c.tenant_id = %(tenant)s ON CONFLICT DO NOTHING",
                values,
            )
        await platform.recorded()
        return True

    ask(measured)
    page = visitor.go("/console/operations?collection=tickets")
    row = page.get_by_role("row", name=re.compile("^tickets"))
    expect(row).to_contain_text("251")
    recall = page.get_by_role("figure", name="Recall of approximate searches")
    expect(recall.locator("line.mark")).to_have_count(1)
    expect(recall.locator("circle")).to_have_count(3)
    expect(page.get_by_role("region", name="The last run of each job")).to_contain_text("learn")
    expect(page.get_by_role("region", name="Doctor")).to_contain_text("retrieval worker")
    page.get_by_role("button", name="What would it cost?").click()
    expect(page.get_by_role("alert").or_(page.locator("#reembedding .done"))).to_be_visible()


def test_a_job_shows_how_far_it_is_until_it_is_done(visitor: Visitor, ask: Ask) -> None:
    """The progress appears without reloading the page."""

    async def place_of(platform: Platform) -> CollectionPlace:
        return await handle_of(await platform.collection("tickets", create=False)).place()

    async def begin(platform: Platform) -> int:
        place = await place_of(platform)
        run = await begin_run(place, "reindex")
        await note_progress(place, run, 1234)
        return run

    run = ask(begin)

    async def end(platform: Platform) -> bool:
        # Each call has a platform of its own, and the first one is closed.
        await end_run(await place_of(platform), run, outcome="done", details={"items": 2500})
        return True

    page = visitor.go("/console/operations?collection=tickets")
    row = page.get_by_role("region", name="The last run of each job").get_by_role("row", name=re.compile("^reindex"))
    expect(row).to_contain_text("so far 1,234")
    ask(end)
    expect(row).to_contain_text("items 2,500")


def test_a_re_embedding_is_begun_paused_switched_and_rolled_back(visitor: Visitor, ask: Ask) -> None:
    """The stage is marked, and there are buttons for what can be done at it alone."""

    async def make(platform: Platform) -> int:
        return (await (await platform.collection("moved")).add([Item(item_id="a", title="alpha")])).added

    async def work(platform: Platform) -> bool:
        return bool(await platform.reembedding("moved", "run"))

    ask(make)
    page = visitor.go("/console/operations?collection=moved")
    card = page.get_by_role("region", name="Re-embedding")
    stage = card.locator("[aria-current=step]")

    def offered() -> list[str]:
        return card.get_by_role("button").all_inner_texts()

    card.get_by_label("To the embedder").fill("minilm")
    card.get_by_role("button", name="What would it cost?").click()
    expect(card.locator(".done")).to_contain_text("1 texts")
    card.get_by_label("To the embedder").fill("minilm")
    card.get_by_role("button", name="Start").click()
    expect(stage).to_have_text("filling")
    assert offered() == ["Pause", "Switch", "Abort"]
    card.get_by_role("button", name="Pause").click()
    expect(card.get_by_role("button", name="Resume")).to_be_visible()
    card.get_by_role("button", name="Resume").click()
    expect(card.get_by_role("button", name="Pause")).to_be_visible()
    ask(work)
    expect(stage).to_have_text("ready")
    card.get_by_role("button", name="Switch").click()
    expect(card.locator(".done")).to_contain_text("Requested: switch")
    ask(work)
    expect(stage).to_have_text("switched")
    assert offered() == ["Pause", "Finish", "Roll back"]
    card.get_by_role("button", name="Roll back").click()
    expect(stage).to_have_text("ready")
    assert visitor.accessibility() == []


def test_a_refresh_under_way_does_not_replace_the_answer_to_a_click(visitor: Visitor, ask: Ask) -> None:
    """The browser abandons the refresh, which would show the state before the click."""

    async def begin(platform: Platform) -> bool:
        await (await platform.collection("refreshed")).add([Item(item_id="a", title="alpha")])
        await platform.reembed("refreshed", to="minilm")
        return True

    ask(begin)
    page = visitor.go("/console/operations?collection=refreshed")
    card = page.get_by_role("region", name="Re-embedding")
    expect(card.locator("[aria-current=step]")).to_have_text("filling")
    refresh = "**/operations/reembedding*"
    page.route(refresh, lambda _: None)  # it is answered by nobody before the click
    with page.expect_request(refresh) as asked:
        pass
    with page.expect_event("requestfailed", lambda request: request == asked.value):
        card.get_by_role("button", name="Pause").click()
    expect(card.locator(".done")).to_contain_text("Requested: pause")
    expect(card.get_by_role("button", name="Resume")).to_be_visible()


@pytest.mark.parametrize("field", ["Drop a CSV or JSON Lines file", "Or a folder of documents"])
def test_a_file_is_dropped(visitor: Visitor, tmp_path: Path, field: str) -> None:
    """Files and folders can be dropped on their fields; a folder on the field for files is reported."""
    file = tmp_path / "dropped.jsonl"
    file.write_text('{"id": "d1", "title": "Dropped here"}\n')
    page = visitor.go("/console/data")
    page.get_by_label("Into the collection").fill("dropped")
    browser = page.context.new_cdp_session(page)

    def drop(label: str, path: Path) -> None:
        box = page.get_by_label(label).bounding_box()
        assert box is not None
        for kind in ("dragEnter", "dragOver", "drop"):
            browser.send("Input.dispatchDragEvent", {
                "type": kind, "x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2,
                "data": {"items": [], "files": [str(path)], "dragOperationsMask": 1},
            })  # fmt: skip

    drop("Drop a CSV or JSON Lines file", tmp_path)
    expect(page.get_by_role("alert")).to_contain_text("the field for folders")
    drop(field, file)
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview")).to_contain_text("Dropped here")
    assert visitor.accessibility() == []


def test_exploration_has_its_share_and_its_price(visitor: Visitor, ask: Ask) -> None:
    """The page of a collection that explores shows the share of explored hits, and how much less they earned."""

    async def explore(platform: Platform) -> bool:
        tried = await platform.collection("explored")
        await tried.add(Item(item_id=f"i{n}", title=f"log file {n}") for n in range(12))
        exploration = Exploration(policy=PolicyName.THOMPSON_SLOTS, slots=2, floor=1.0)
        await tried.set_profile(replace(tried.profile, exploration=exploration, recording=Recording(wait=True)))
        for number in range(6):
            hits = await tried.search("log file", limit=5, context=Context(domain=f"d{number % 2}"))
            for hit in hits:
                is_good = hit.slot is Slot.EXPLOIT
                await platform.feedback(hits.retrieval_id, hit.item_id, helpful=is_good, actor=f"kim {number}")
        return True

    ask(explore)
    page = visitor.go("/console/learning?collection=explored")
    exploration = page.get_by_role("figure", name="Exploration")
    expect(exploration).to_contain_text("of hits were explored; such a hit earned 1.000 less")
    expect(exploration.locator("circle")).to_have_count(2)
    contexts = page.get_by_role("figure", name="Reward by context")
    expect(contexts.locator("rect")).to_have_count(3)
    expect(contexts).to_contain_text("domain=d0")
    over_time = page.get_by_role("figure", name="The most used items over")
    expect(over_time.locator(".whisker")).to_have_count(4)
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#compared")).to_contain_text("effective sample")


def test_learning_shows_items_contexts_events_and_a_replay(visitor: Visitor, ask: Ask) -> None:
    """From a rated item to its events, and from there to the search, asked again."""

    async def rate(platform: Platform) -> str:
        tickets = await platform.collection("tickets", create=False)
        title = ""
        for number in range(4):
            hits = await tickets.search("compressed file")
            title = hits[0].title
            await platform.feedback(hits.retrieval_id, hits[0].item_id, helpful=number != 1, actor=f"kim {number}")
        return title

    title = ask(rate)
    page = visitor.go("/console/learning?collection=tickets")
    fared = page.get_by_role("figure", name="Verdicts by item")
    expect(fared.locator("rect").first).to_be_visible()
    fared.get_by_text("Events by item").click()
    fared.get_by_role("link", name=title).click()
    expect(page.get_by_text("4 verdicts, 3 of them good.")).to_be_visible()
    assert visitor.accessibility() == []
    page.locator("main section a").first.click()
    expect(page.get_by_role("heading", name="compressed file")).to_be_visible()
    expect(page.get_by_role("region", name="Replay")).to_contain_text("Its ranking follows from its record.")
    expect(page.get_by_role("link", name="Learning")).to_have_attribute("aria-current", "page")
    stages = page.get_by_role("figure", name="Where the time went").locator("tbody td:first-child")
    assert stages.all_text_contents() == ["embed", "candidates", "learn", "items", "total"]
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert visitor.accessibility() == []


def test_the_sql_of_each_plot_gives_the_numbers_of_its_table(
    visitor: Visitor, database_url: str, console_settings: Settings, ask: Ask
) -> None:
    """The copied SQL runs, and returns the columns and the number of rows of the table beside the plot."""

    async def rate(platform: Platform) -> str:
        hits = await (await platform.collection("tickets", create=False)).search("release label")
        await platform.feedback(hits.retrieval_id, hits[0].item_id, helpful=True, actor="sam")
        await platform.recorded()
        return f"{hits.retrieval_id} {hits[0].item_id}"

    retrieval_id, item_id = ask(rate).split()
    pages = (
        "operations?collection=tickets", "learning?collection=tickets", "profiles?collection=tickets",
        f"learning/item?collection=tickets&id={item_id}", f"learning/search?collection=tickets&id={retrieval_id}",
    )  # fmt: skip
    plots = 0
    for path in pages:
        # The service stores earlier searches a moment later; a search between the page and its SQL is in both
        # next time.
        for _ in range(10):
            plotted = figures(visitor.go(f"/console/{path}"))
            results = [in_thread(database_url, console_settings.tenant, sql) for sql, *_ in plotted]
            if [rows for rows, _ in results] == [rows for _, rows, _ in plotted]:
                break
        for (sql, rows, columns), (given_rows, names) in zip(plotted, results, strict=True):
            # The database has the inputs of a recorded search's scores; the profile computes their parts.
            assert names == columns or (names[0], columns[0]) == ("rank", "rank"), path
            assert given_rows == rows, (path, sql)
        plots += len(plotted)
    assert plots >= 11


def figures(page: Page) -> list[tuple[str, int, list[str]]]:
    """The SQL of each figure, the number of its table's rows, and the names of its columns."""
    tables = ((figure, figure.locator("details").filter(has_text="Numbers")) for figure in page.locator("figure").all())
    return [
        (
            figure.locator("pre code").text_content() or "",
            numbers.locator("table tbody tr").count(),
            numbers.locator("table thead th").all_text_contents(),
        )
        for figure, numbers in tables
    ]


def in_thread(url: str, tenant: str, sql: str) -> tuple[int, list[str]]:
    """The rows that a statement gives as that tenant, and the names of its columns."""
    outcomes: list[Any] = []

    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await connection.execute(f'SET search_path = "{SCHEMA}", public'.encode())
            session = await (
                await connection.execute("SELECT tenant_id FROM tenants WHERE name = %s", (tenant,))
            ).fetchone()
            await connection.execute(
                "SELECT set_config('retrieval.tenant', %s, false)", (str(session[0] if session else 0),)
            )
            cursor = await connection.execute(sql.encode())
            outcomes.append((cursor.rowcount, [column.name for column in cursor.description or ()]))

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    thread.join()
    count, names = outcomes[0]
    return int(count), names


def test_each_application_has_its_view(visitor: Visitor, ask: Ask) -> None:
    """Similar tickets while typing, a timeline with a prompt, principles with evidence, metaphors' operations."""

    async def make(platform: Platform) -> bool:
        principles = PrincipleStore(platform)
        principle = await principles.add_principle(f"Measure {ATTACK}", "before you tune", ("tuning",))
        await principles.record_usage(principle.id, was_helpful=True)
        await MemoryStore(platform).store_memory("apollo", "decision", f"We use queues {ATTACK}")
        await MetaphorCorpus.open(platform)
        return True

    ask(make)
    page = visitor.go("/console/applications")
    page.get_by_label("Title").press_sequentially("connection timeout")
    expect(page.locator("#answer tbody tr").first).to_be_visible()
    assert visitor.accessibility() == []
    page.get_by_role("link", name="Memories").click()
    page.get_by_label("Project").fill("apollo")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("region", name="The project's timeline")).to_contain_text(f"We use queues {ATTACK}")
    expect(page.get_by_role("region", name="For a prompt")).to_contain_text("queues")
    assert visitor.accessibility() == []
    page.get_by_role("link", name="Principles").click()
    expect(page.get_by_role("region", name="Principles with their evidence")).to_contain_text("1 of 1")
    assert visitor.accessibility() == []
    page.get_by_role("link", name="Metaphors").click()
    page.get_by_label("Problem").press_sequentially("Traffic piles up at the exits of a stadium")
    expect(page.locator("#answer li").nth(2)).to_be_visible()

    assert page.title() == "Metaphors · Retrieval"
    assert visitor.accessibility() == []
