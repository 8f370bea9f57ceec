"""The applications' views: similar tickets while typing, a project's memories, principles, metaphors for a problem.

An application is shown if its collection exists; opening a view does not create collections.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import htpy as h
from starlette.routing import Route

from retrieval.apps.memories import RelevantMemory, RetrievalEngine
from retrieval.apps.memories.store import COLLECTION as MEMORIES
from retrieval.apps.metaphors import MetaphorCorpus, MetaphorRetriever, Problem, Retrieved
from retrieval.apps.metaphors.corpus import COLLECTION as METAPHORS
from retrieval.apps.principles import PrincipleScore, PrincipleStore
from retrieval.apps.principles.principle import COLLECTION as PRINCIPLES
from retrieval.apps.tickets.models import MovedTicket
from retrieval.domain.api_key import Scope
from retrieval.surfaces.console.frame import Visit, empty, page, shown_value, table, text_field, view
from retrieval.surfaces.console.plots import bars, distinct_names, figure, legend, sql_of, sql_to_copy, stacked_bar
from retrieval.surfaces.http.caller import service_of

_SHOWN = 20
_HOURS, _MOST_HOURS = 24.0 * 28, 24.0 * 3650
_TEXT = 300


async def applications(visit: Visit) -> h.Node:
    """The view of one application; the others are links."""
    tickets = service_of(visit.request).tickets(visit.platform).config.collection
    homes = {"tickets": tickets, "memories": MEMORIES, "principles": PRINCIPLES, "metaphors": METAPHORS}
    existing = {collection.name for collection in await visit.platform.collections()}
    applications = [name for name, home in homes.items() if home in existing]
    if not applications:
        text = "No application has a collection yet. Their collections are named " + ", ".join(homes.values()) + "."
        return await page(visit, "Applications", empty(text), chooses=False)
    current = app if (app := visit.text("app")) in applications else applications[0]
    tabs = h.nav(".pages", aria_label="Applications")[
        (
            h.a(href=visit.url("/applications", app=name), aria_current="page" if name == current else None)[
                name.capitalize()
            ]
            for name in applications
        )
    ]
    return await page(visit, current.capitalize(), [tabs, await _VIEWS[current](visit)], chooses=False)


def _form(visit: Visit, app: str, fields: h.Node, answer: h.Node, *, trigger: str) -> h.Node:
    """A form that is submitted while the user types, or by its button without scripts."""
    return [
        h.form(".card", method="get", action=visit.url("/applications"), hx_get=visit.url("/applications"),
               hx_target="#answer", hx_select="#answer", hx_swap="outerHTML", hx_trigger=trigger,
               hx_sync="this:replace")[
            h.input(type="hidden", name="app", value=app), fields, h.p[h.button(type="submit")["Show"]],
        ],
        h.div("#answer", aria_live="polite")[answer],
    ]  # fmt: skip


_TYPING = "input delay:300ms, submit"


def _field(visit: Visit, name: str, label: str, default: str = "") -> h.Node:
    return text_field(name, label, visit.text(name, default), autocomplete="off")


async def _tickets(visit: Visit) -> h.Node:
    title, description = visit.text("title").strip(), visit.text("description").strip()
    answer: h.Node = h.p(".hint")["Describe a problem: the most similar tickets appear while you type."]
    if title or description:
        service = service_of(visit.request).tickets(visit.platform)
        preview = await service.preview_search(title, description, visit.text("domain").strip() or None)
        answer = _similar(visit, preview.previews[0].tickets, service.config.collection)
    fields = h.div(".cards")[
        _field(visit, "title", "Title"), _field(visit, "description", "Description"), _field(visit, "domain", "Domain"),
    ]  # fmt: skip
    return _form(visit, "tickets", fields, answer, trigger=_TYPING)


def _similar(visit: Visit, tickets: Sequence[MovedTicket], collection: str) -> h.Node:
    if not tickets:
        return empty("No ticket is similar.")
    names = list(dict.fromkeys(name for ticket in tickets for name in ticket.contributions))
    rows = [
        (
            h.a(href=visit.url("/data/item", collection=collection, id=ticket.ticket.ticket_id))[ticket.ticket.title],
            ticket.ticket.priority or "–",
            f"{ticket.ticket.resolution_time_hours:g} h" if ticket.ticket.resolution_time_known else "–",
            ticket.ticket.resolution or "–",
            [f"{ticket.ticket.similarity_score:.3f}", stacked_bar(ticket.contributions, names, whole=1.0)],
        )
        for ticket in tickets
    ]
    columns = ("ticket", "priority", "resolved in", "resolution", "similarity")
    drawing = [legend(names), table(columns, rows, caption="The best first")]
    numbers = [
        (ticket.ticket.ticket_id, ticket.ticket.similarity_score, *(ticket.contributions.get(name) for name in names))
        for ticket in tickets
    ]
    return figure("Similar tickets", drawing, ("ticket", "similarity", *names), numbers, "")


async def _memories(visit: Visit) -> h.Node:
    project, task = visit.text("project").strip(), visit.text("task").strip()
    answer: h.Node = h.p(".hint")["Enter a project to see its timeline and the text for a prompt."]
    if project:
        # Opening the view does not count as an access.
        engine = RetrievalEngine(visit.platform, count_accesses=False)
        hours = visit.number("hours", _HOURS, 0.01, _MOST_HOURS)
        timeline = await engine.retrieve_timeline(project, hours, 200)
        query = visit.text("query").strip() or None
        task = task or (timeline[0].interaction_type if timeline else "insights")
        prompt = await engine.retrieve_context_for_task(project, task, query=query)
        text = h.pre(tabindex="0")[prompt] if prompt else h.p(".hint")["There are no memories for such a task."]
        section = h.section(".card", aria_label="For a prompt")[h.h2["The text for a prompt"], text]
        answer = [_timeline(visit, timeline), section]
    fields = h.div(".cards")[
        _field(visit, "project", "Project"), _field(visit, "hours", "Of the last hours", f"{_HOURS:g}"),
        _field(visit, "task", "Type of task (empty: the latest memory's)"), _field(visit, "query", "Words of the task"),
    ]  # fmt: skip
    return _form(visit, "memories", fields, answer, trigger="submit")


def _timeline(visit: Visit, memories: Sequence[RelevantMemory]) -> h.Node:
    if not memories:
        return empty("This project has no memories of that time.")
    rows = [
        (
            shown_value(memory.occurred_at),
            memory.interaction_type,
            h.a(href=visit.url("/data/item", collection=MEMORIES, id=memory.memory_id))[
                (memory.summary or memory.text)[:_TEXT] or memory.memory_id
            ],
            f"{memory.accesses:,}",
        )
        for memory in memories
    ]
    columns = ("when", "kind", "memory", "retrieved")
    return h.section(".card")[table(columns, rows, caption="The project's timeline, the latest first")]


async def _principles(visit: Visit) -> h.Node:
    store = PrincipleStore(visit.platform)
    stats, scores = await store.stats(), await store.get_principle_scores()
    facts = {name: shown_value(value) for name, value in stats.as_dict().items()}
    if not scores:
        return empty("There are no principles in use yet.")
    top = scores[:_SHOWN]
    names = distinct_names([entry.principle.title for entry in top], [entry.principle.id for entry in top])
    best = {name: (entry.score,) for name, entry in zip(names, top, strict=True)}
    score = "SELECT *, (successes + 1) / (uses + 2.0) AS score"
    sql = sql_of("usage", PRINCIPLES).replace("SELECT *", score) + " AND context = ''\nORDER BY score DESC"
    return [
        h.section(".card")[h.dl[((h.dt[name.replace("_", " ")], h.dd[value]) for name, value in facts.items())]],
        h.section(".card")[
            h.h2["The best, by (good verdicts + 1) / (verdicts + 2)"],
            bars("Scores of the best principles", best),
            sql_to_copy(sql),
        ],
        _evidence(visit, scores),
    ]


def _evidence(visit: Visit, scores: Sequence[PrincipleScore]) -> h.Node:
    rows = [
        (
            h.a(href=visit.url("/data/item", collection=PRINCIPLES, id=principle.id))[principle.title or principle.id],
            ", ".join(principle.tags),
            f"{score:.3f}",
            h.a(href=visit.url("/learning/item", collection=PRINCIPLES, id=principle.id))[
                f"{principle.success_count:,} of {principle.use_count:,}"
            ],
            shown_value(principle.last_used_at),
            principle.added_by or "–",
        )
        for principle, score in scores[:500]
    ]
    columns = ("principle", "tags", "score", "good verdicts", "last used", "added by")
    return h.section(".card")[table(columns, rows, caption="Principles with their evidence", numbers=("score",))]


async def _metaphors(visit: Visit) -> h.Node:
    description = visit.text("problem").strip()
    answer: h.Node = h.p(".hint")["Describe a problem: the most similar metaphors appear, with their operations."]
    if description:
        # The corpus is opened without storing its standard metaphors: opening the view writes nothing.
        corpus = MetaphorCorpus(await visit.platform.collection(METAPHORS, create=False))
        retriever = MetaphorRetriever(corpus, platform=visit.platform)
        problem = Problem(id="console", description=description, domain=visit.text("domain"))
        answer = _candidates(await retriever.retrieve_by_embedding(problem, 10))
    fields = h.div(".cards")[_field(visit, "problem", "Problem"), _field(visit, "domain", "Domain")]
    return _form(visit, "metaphors", fields, answer, trigger=_TYPING)


def _candidates(retrieved: Retrieved) -> h.Node:
    return [
        (h.p(".note")[note] for note in retrieved.notes),
        (
            h.section(".card")[
                h.h2[metaphor.name, " ", h.span(".score")[f"{score:.3f}"]],
                h.p[metaphor.description],
                h.ul[
                    (
                        h.li[h.strong[operation.name.replace("_", " ")], ": ", ", ".join(operation.effects)]
                        for operation in metaphor.operations
                    )
                ],
            ]
            for metaphor, score in retrieved
        ),
    ]  # fmt: skip


_VIEWS: Mapping[str, Callable[[Visit], Awaitable[h.Node]]] = {
    "tickets": _tickets,
    "memories": _memories,
    "principles": _principles,
    "metaphors": _metaphors,
}

ROUTES: tuple[Route, ...] = (view("/applications", applications, needs=Scope.READ),)
