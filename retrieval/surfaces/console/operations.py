"""The Operations view: collections, recall, latency, jobs, re-embedding and the doctor's findings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import htpy as h
from starlette.routing import Route

from retrieval.adapters.store.installation.queue import RUNNING, JobRun
from retrieval.adapters.store.items.collection_facts import CollectionStatus
from retrieval.adapters.store.search.reembeddings import ReembeddingState
from retrieval.domain.api_key import Scope
from retrieval.domain.checks import written
from retrieval.domain.diagnosis import Diagnosis, Finding
from retrieval.domain.errors import InvalidRequestError, NotFoundError, UnknownCollectionError
from retrieval.domain.records.analytics import AnalyticsTable
from retrieval.services.reembed import ACTIONS, Reembedding, note_on_items_without_text, possible_actions
from retrieval.surfaces.console.frame import Visit, empty, notice, page, shown_value, table, view
from retrieval.surfaces.console.plots import Series, lines, stored_figure
from retrieval.surfaces.http.routes.installation import examined

CONTRACT = 0.99
"""The target for recall."""

_WEEKS = timedelta(days=28)
_REFRESH = "every 5s"
_ONE_POST = "#reembedding:drop"
"""A second click posts nothing; a click abandons a refresh under way, which would replace its answer by older state."""
_LABELS = {"rollback": "Roll back"}


async def operations(visit: Visit) -> h.Node:
    """An overview of all collections, and details of the chosen one."""
    name = visit.text("collection")
    statuses = await visit.platform.statistics()
    if not statuses:
        return await page(visit, "Operations", empty("There are no collections yet."), chooses=False)
    chosen = next((status for status in statuses if status.name == name), None)
    return await page(visit, "Operations", [
        _overview(visit, statuses),
        h.p(".hint")["Choose a collection for its details."] if chosen is None else [
            h.h2[chosen.name],
            h.div(".two")[await _latency(visit, chosen.name), await _recall(visit, chosen)],
            _going_on(visit, chosen),
            _loaded(visit, "Re-embedding", "reembedding", chosen.name) if visit.may(Scope.ADMIN) else None,
        ],
        _loaded(visit, "Doctor", "doctor", name) if visit.may(Scope.ADMIN) else None,
    ])  # fmt: skip


def _overview(visit: Visit, statuses: Sequence[CollectionStatus]) -> h.Node:
    columns = ("collection", "items", "waiting", "embedding space", "index", "recall", "not recorded")
    rows = [
        (
            h.a(href=visit.url("/operations", collection=status.name))[status.name],
            f"{status.items:,}",
            f"{status.pending:,}",
            status.space or "words alone",
            ", ".join(
                f"{index.bytes / 2**20:.1f} MB{'' if index.valid else ', unfinished'}" for index in status.indexes
            )
            or "none: all are compared",
            f"{min(measurement.recall for measurement in status.recall):.3f}" if status.recall else "–",
            f"{sum(status.unrecorded.values()):,}",
        )
        for status in statuses
    ]
    return h.section(".card")[table(columns, rows, caption="The collections", numbers=("items", "waiting", "recall"))]


async def _latency(visit: Visit, name: str) -> h.Node:
    latency = await visit.platform.analytics("latency", collection=name, since=_WEEKS)
    totals = {(row["day"], row["path"]): row for row in latency if row["stage"] == "total"}
    days = sorted({day for day, _ in totals})
    series = [
        Series(f"{quantile}, {path}", [totals.get((day, path), {}).get(f"{quantile}_ms") for day in days])
        for path in sorted({path for _, path in totals})
        for quantile in ("p50", "p95", "p99")
    ]
    drawing = (
        lines("Milliseconds of searches by day", [f"{day:%d %b}" for day in days], series, least=0.0)
        if days
        else h.p(".hint")["Nothing was recorded in the last 28 days."]
    )
    return stored_figure("Latency in milliseconds: median, 95 % and 99 %", drawing, latency, name)


async def _recall(visit: Visit, chosen: CollectionStatus) -> h.Node:
    recall = await visit.platform.analytics("recall", collection=chosen.name, limit=2000)
    title = f"Recall of approximate searches, against the contract of {CONTRACT:g}"
    drawing: h.Node = _recall_lines(recall) if len(recall) else h.p(".hint")[
        "Nothing to measure: every search compares all items, and so finds the nearest."
        if not chosen.indexes
        else "Not measured yet; the job recall measures it on recorded searches."
    ]  # fmt: skip
    return stored_figure(title, drawing, recall, chosen.name)


def _recall_lines(rows: AnalyticsTable) -> h.Node:
    times = sorted({row["measured_at"] for row in rows})
    recalls = {(row["measured_at"], row["bucket"]): float(row["recall"]) for row in rows}
    buckets = sorted({row["bucket"] for row in rows})
    series = [Series(bucket, [recalls.get((time, bucket)) for time in times]) for bucket in buckets]
    least = min(0.9, *recalls.values())
    x_labels = [f"{time:%d %b %H:%M}" for time in times]
    return lines("Recall by measurement", x_labels, series, least=least, most=1.0, mark=CONTRACT)


def _going_on(visit: Visit, chosen: CollectionStatus) -> h.Node:
    """Pending work and jobs; the page refreshes itself while anything waits or runs."""
    refresh: dict[str, str] = {}
    if chosen.pending or chosen.weights_pending or any(run.outcome == RUNNING for run in chosen.runs):
        address = visit.url("/operations/going-on", collection=chosen.name)
        refresh = {"hx_get": address, "hx_trigger": _REFRESH, "hx_swap": "outerHTML"}
    return h.div("#going-on", **refresh)[_pending(chosen), _jobs(chosen.runs)]


def _pending(chosen: CollectionStatus) -> h.Node:
    if not chosen.pending and not chosen.weights_pending:
        return h.section(".card", aria_label="Waiting")[h.p["Nothing waits: every item can be found."]]
    return h.section(".card", aria_label="Waiting")[
        h.p[f"{chosen.pending:,} items wait for their vector; a worker computes it (retrieval worker)."],
        h.progress(
            value=str(max(chosen.items - chosen.pending, 0)),
            max=str(max(chosen.items, 1)),
            aria_label="Items with a vector",
        ),
        h.p(".hint")["The weights of words wait to be computed again."] if chosen.weights_pending else None,
    ]


async def going_on(visit: Visit) -> h.Node:
    """A collection's pending work, and its jobs."""
    name = visit.text("collection")
    chosen = next((status for status in await visit.platform.statistics() if status.name == name), None)
    return _going_on(visit, chosen) if chosen is not None else None


def _jobs(runs: Sequence[JobRun]) -> h.Node:
    columns = ("job", "began", "seconds", "outcome", "details")
    rows = [
        (
            run.job,
            shown_value(run.started_at),
            shown_value(run.seconds),
            h.span(class_=["state", "error" if run.outcome == "failed" else ""])[run.outcome],
            ", ".join(f"{name.replace('_', ' ')} {shown_value(value)}" for name, value in run.details.items()) or "–",
        )
        for run in runs
    ]
    if not rows:
        return h.section(".card")[h.p["No job has run yet; retrieval worker runs them."]]
    return h.section(".card")[table(columns, rows, caption="The last run of each job", numbers=("seconds",))]


def _loaded(visit: Visit, title: str, view_name: str, collection: str) -> h.Node:
    """A card whose content the browser requests after the page."""
    address = visit.url(f"/operations/{view_name}", collection=collection)
    return h.section(".card", aria_label=title)[
        h.h2[title], h.div(f"#{view_name}", hx_get=address, hx_trigger="load")[h.p(".hint")["Loading …"]]
    ]


async def reembedding(visit: Visit, *before: h.Node) -> h.Node:
    """The state of a re-embedding with its buttons, or the form that begins one; ``before`` comes first."""
    name = visit.text("collection")
    try:
        current = await visit.platform.reembedding(name)
    except NotFoundError as error:
        if isinstance(error, UnknownCollectionError):
            raise
        return [*before, _begin_form(visit, name)]
    return [*before, _begin_form(visit, name) if current.state.is_over else None, _stages(visit, current)]


def _begin_form(visit: Visit, name: str) -> h.Node:
    return h.form(hx_post=visit.url("/operations/reembed"), hx_target="#reembedding", hx_sync=_ONE_POST)[
        h.p["No re-embedding is under way."],
        h.input(type="hidden", name="collection", value=name),
        h.div(".row")[
            h.label(for_="to")["To the embedder"],
            h.input("#to", type="text", name="to", placeholder="minilm, openai …; empty: that of new collections"),
            h.button(".quiet", type="submit", name="do", value="cost")["What would it cost?"],
            h.button(type="submit", name="do", value="start")["Start"],
        ],
    ]


def _stages(visit: Visit, current: Reembedding) -> h.Node:
    name, done = current.collection, current.items - current.pending
    facts = {
        "from": current.former, "to": current.target,
        "items left": f"{current.pending:,} of {current.items:,}", "tokens asked for": f"{current.paid_tokens:,}",
        "begun": shown_value(current.started_at), "switched": shown_value(current.switched_at),
        "former space is removed": shown_value(current.removes_at),
    }  # fmt: skip
    comparison = current.comparison or {}
    refresh = {"hx_get": visit.url("/operations/reembedding", collection=name), "hx_trigger": _REFRESH,
               "hx_target": "#reembedding", "hx_sync": "#reembedding:abort"}  # fmt: skip
    return h.div(**refresh if not current.state.is_over else {})[
        h.ol(".stages", aria_label="Stages")[
            (h.li(aria_current="step" if stage is current.state else None)[stage.value]
             for stage in ReembeddingState if stage is current.state or stage is not ReembeddingState.ABORTED)
        ],
        h.dl[((h.dt[label], h.dd[value]) for label, value in facts.items())],
        h.progress(value=str(done), max=str(max(current.items, 1)), aria_label="Items with a vector of the target"),
        h.p(".note")[current.note] if current.note else None,
        table(("figure", "value"), [(key, shown_value(value)) for key, value in comparison.items()],
              caption="The space in use and the target, compared by the same questions") if comparison else None,
        h.form(".row.left", hx_post=visit.url("/operations/reembed"), hx_target="#reembedding",
               hx_sync=_ONE_POST)[
            h.input(type="hidden", name="collection", value=name),
            [h.button(f"#do-{action}.quiet", type="submit", name="do", value=action)[
                _LABELS.get(action, action.capitalize())] for action in possible_actions(current)],
        ],
        h.p(".hint")["A worker does the work: retrieval worker."],
    ]  # fmt: skip


async def reembed(visit: Visit) -> h.Node:
    """Begin a re-embedding, show its cost, or change its state; a worker does the rest."""
    name, do = visit.text("collection"), visit.text("do")
    to = visit.text("to").strip() or None
    if do == "cost":
        cost = await visit.platform.reembed_cost(name, to=to)
        size = cost.vector_bytes / 2**20
        summary = f"{cost.texts:,} texts of {cost.tokens:,} tokens to {cost.target}, and {size:.1f} MB of vectors."
        notes = filter(None, (summary, note_on_items_without_text(cost.without_text), cost.note))
        return await reembedding(visit, notice(" ".join(notes)))
    if do == "start":
        await visit.platform.reembed(name, to=to)
        return await reembedding(visit, notice("The re-embedding has begun."))
    if do not in ACTIONS:
        raise InvalidRequestError(f"there is no action {written(do, 40)}; there are {', '.join(ACTIONS)}")
    await visit.platform.reembedding(name, do, wait=False)
    return await reembedding(visit, notice(f"Requested: {do}."))


async def doctor(visit: Visit) -> h.Node:
    """The findings, the worst first, with remedies; with a key, only those about its tenant's collections."""
    return _findings(await examined(visit.request, visit.platform, visit.text("collection") or None))


def _findings(diagnosis: Diagnosis) -> h.Node:
    def row(finding: Finding) -> tuple[h.Node, ...]:
        return (
            h.span(class_=["state", finding.severity.value])[finding.severity.value],
            finding.check,
            finding.found,
            h.code[finding.mend] if finding.mend else "–",
        )

    problems = [finding for finding in diagnosis.findings if finding.severity.rank]
    columns = ("", "about", "finding", "remedy")
    return [
        table(columns, map(row, problems), caption="Problems") if problems else h.p["No problems found."],
        h.details[
            h.summary[f"All checks ({len(diagnosis.findings)})"],
            table(columns, map(row, diagnosis.findings), caption="All checks"),
        ],
    ]


ROUTES: tuple[Route, ...] = (
    view("/operations", operations, needs=Scope.READ),
    view("/operations/going-on", going_on, needs=Scope.READ),
    view("/operations/doctor", doctor, needs=Scope.ADMIN),
    view("/operations/reembedding", reembedding, needs=Scope.ADMIN),
    view("/operations/reembed", reembed, needs=Scope.ADMIN, method="POST"),
)
