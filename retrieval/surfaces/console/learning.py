"""The Learning view: rising items, the gain and cost of exploration, items' rewards, and the replay of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import htpy as h
from starlette.routing import Route

from retrieval.collection import Collection
from retrieval.domain.api_key import Scope
from retrieval.domain.errors import RetrievalError
from retrieval.domain.records.recorded import RecordedRetrieval
from retrieval.engine.replay import Replay
from retrieval.surfaces.console import plots
from retrieval.surfaces.console.frame import Visit, empty, notice, page, problem_box, shown_value, table, view
from retrieval.surfaces.console.plots import Series
from retrieval.surfaces.console.profiles import comparing
from retrieval.surfaces.http.problems import problem_of

_BARS, _LINES = 12, 4
_ROWS, _EVENTS, _SEARCHES = 1000, 10_000, 25

Row = Mapping[str, Any]


async def learning(visit: Visit) -> h.Node:
    """The figures of a collection's feedback, and its recorded searches."""
    if not visit.text("collection"):
        return await page(visit, "Learning", empty("Choose a collection."))
    collection = await visit.collection()
    return await page(visit, "Learning", [
        h.div(".two")[
            await _rising(visit, collection.name), await _exploration(visit, collection.name),
            await _arms(visit, collection.name), await _over_time(visit, collection.name),
        ],
        await _contexts(visit, collection.name),
        comparing(visit, await collection.profiles(limit=50)),
        h.div("#models")[await _models(visit, collection)],
        await _searches(visit, collection),
    ])  # fmt: skip


def _with_titles(rows: Sequence[Row]) -> list[tuple[str, Row]]:
    """The rows, with the titles of their items."""
    names = plots.distinct_names(
        [str(row["title"] or row["item_id"]) for row in rows], [row["item_id"] for row in rows]
    )
    return list(zip(names, rows, strict=True))


async def _rising(visit: Visit, name: str) -> h.Node:
    changes = await visit.platform.analytics("rising_items", collection=name, limit=_ROWS)
    by_change = sorted(changes, key=lambda row: row["used_before"] - row["used"])
    rising = [row for row in by_change if row["rise"] > 1][:_BARS]
    sinking = [row for row in reversed(by_change) if row["rise"] < 1][:_BARS]
    drawing = [
        [h.h3[kind], plots.bars(f"{kind} items: verdicts in 14 days {word} than in the 14 before", change)]
        for kind, word, rows in (("Rising", "more", rising), ("Sinking", "fewer", sinking))
        if (change := {title: (float(abs(row["used"] - row["used_before"])),) for title, row in _with_titles(rows)})
    ]
    none = h.p(".hint")["No item was used more or less often in the last 14 days than in the 14 before."]
    title = "Rising and sinking items: verdicts of the last 14 days against the 14 before"
    return plots.stored_figure(title, drawing or none, changes, name)


async def _exploration(visit: Visit, name: str) -> h.Node:
    rows = await visit.platform.analytics("exploration", collection=name)
    days = [row for row in rows if row["day"] is not None]
    whole = next((row for row in rows if row["day"] is None), None)
    if not any(row["explored"] for row in rows):
        drawing: h.Node = h.p(".hint")["Nothing was explored in the last 28 days; the profile turns exploration on."]
    else:
        series = [
            Series("share of explored hits", [_number(row["explored_share"]) for row in days]),
            Series("cost: reward lost per explored hit", *_interval(days, "cost", "cost_se")),
        ]
        drawing = plots.lines("Exploration by day", [f"{row['day']:%d %b}" for row in days], series)
    summary = None
    if whole is not None and whole["cost"] is not None:
        summary = h.p[
            f"{whole['explored_share']:.1%} of hits were explored; such a hit earned {abs(whole['cost']):.3f} ",
            "less." if whole["cost"] >= 0 else "more.",
        ]
    return plots.stored_figure("Exploration: its share and its cost", [drawing, summary], rows, name)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _interval(rows: Sequence[Row], name: str, error: str) -> tuple[list[float | None], ...]:
    """The values with the ends of their 95 % intervals."""
    known = [() if (mean := _number(row[name])) is None else plots.interval(mean, _number(row[error])) for row in rows]
    return tuple([ends[index] if index < len(ends) else None for ends in known] for index in range(3))


async def _arms(visit: Visit, name: str) -> h.Node:
    usage = await visit.platform.analytics("usage", collection=name, limit=_ROWS)
    rows = _with_titles([row for row in usage if not row["context"] and row["uses"]][:_BARS])
    links = [
        h.li[h.a(href=visit.url("/learning/item", collection=name, id=row["item_id"]))[title]] for title, row in rows
    ]
    more = h.details[h.summary["Events by item"], h.ul[links]] if links else None
    shares = {title: [float(row[column]) for column in _SHARE] for title, row in rows}
    drawing = plots.bars("Share of good verdicts", shares) if rows else _NO_FEEDBACK
    title = "Verdicts by item: share of good verdicts, with 95 % intervals"
    return plots.stored_figure(title, [drawing, more], usage, name)


_SHARE = ("success_rate", "success_low", "success_high")
"""The share of good verdicts, and the ends of its interval."""
_NO_FEEDBACK = h.p(".hint")["There is no feedback yet: mark hits as helpful under Search."]


async def _over_time(visit: Visit, name: str) -> h.Node:
    usage = await visit.platform.analytics("usage_by_day", collection=name, limit=_ROWS)
    whole = [row for row in usage if not row["context"]]
    days = sorted({row["day"] for row in whole})
    latest = list({row["item_id"]: row for row in whole}.values())[:_LINES]
    by_day = {(row["item_id"], row["day"]): row for row in whole}
    series = [
        Series(
            title, *(_filled([by_day.get((row["item_id"], day), {}).get(column) for day in days]) for column in _SHARE)
        )
        for title, row in _with_titles(latest)
    ]
    drawing: h.Node = _NO_FEEDBACK
    if series:
        label = "Share of good verdicts since the first day, of the most used items"
        drawing = plots.lines(label, [f"{day:%d %b}" for day in days], series, least=0.0, most=1.0)
    return plots.stored_figure("The most used items over the last 28 days, with 95 % intervals", drawing, usage, name)


def _filled(values: Sequence[float | None]) -> list[float | None]:
    """The values of a running total; a missing value repeats the previous one."""
    last, totals = None, list[float | None]()
    for value in values:
        last = last if value is None else value
        totals.append(last)
    return totals


async def _contexts(visit: Visit, name: str) -> h.Node:
    contexts = await visit.platform.analytics("contexts", collection=name)
    rewards = {
        str(row["context"] or "all feedback"): [
            min(max(end, 0.0), 1.0) for end in plots.interval(float(row["reward"]), row["reward_se"])
        ]
        for row in contexts[: _BARS + 1]
    }
    drawing = plots.bars("Mean reward by context, with 95 % intervals", rewards) if rewards else _NO_FEEDBACK
    return plots.stored_figure("Reward by context in the last 28 days", drawing, contexts, name)


async def _models(visit: Visit, collection: Collection) -> h.Node:
    models, used = await collection.models(), (await collection.info()).model_version
    rows = [
        (
            str(model.version),
            model.kind,
            f"{model.events:,}",
            shown_value(model.created_at),
            model.reason,
            h.span(".state.active")["in use"]
            if model.version == used
            else ("kept" if model.is_published else "not used"),
        )
        for model in models
    ]
    learn = h.form(hx_post=visit.url("/learning/learn"), hx_target="#models", hx_sync="this:drop")[
        h.input(type="hidden", name="collection", value=collection.name),
        h.button(".quiet", type="submit")["Fit a model to the feedback now"],
    ]
    return h.section(".card")[
        h.div(".row")[h.h2["Learned models"], learn if visit.may(Scope.ADMIN) else None],
        table(("version", "kind", "verdicts", "created", "reason", "state"), rows, caption="Models, the newest first")
        if rows
        else h.p["No model has been fitted yet."],
    ]


async def learn(visit: Visit) -> h.Node:
    """Fit a model on the feedback now; it is used if it is better."""
    collection = await visit.collection()
    done = await collection.learn()
    return [notice(str(done.get("reason") or "Done.")), await _models(visit, collection)]


async def _searches(visit: Visit, collection: Collection) -> h.Node:
    found = await collection.retrievals(limit=_SEARCHES + 1, before=visit.text("before") or None)
    searches = found[:_SEARCHES]
    rows = [
        (
            shown_value(retrieval.retrieved_at),
            h.a(href=visit.url("/learning/search", collection=collection.name, id=retrieval.retrieval_id))[
                retrieval.query or "(by a vector)"
            ],
            str(retrieval.hits),
            f"{retrieval.retrieval_time_ms:.0f}",
            retrieval.path,
            str(retrieval.profile_version or "its own"),
        )
        for retrieval in searches
    ]
    if not rows:
        return h.section(".card")[h.p["No search is recorded yet."]]
    more = visit.url("/learning", collection=collection.name, before=searches[-1].retrieval_id)
    return h.section(".card")[
        table(("when", "question", "hits", "ms", "path", "profile"), rows, caption="Recorded searches"),
        h.nav(".pages", aria_label="Pages")[
            h.a(href=more, rel="next")["Earlier searches"] if len(found) > _SEARCHES else None
        ],
    ]  # fmt: skip


async def item(visit: Visit) -> h.Node:
    """The events of one item: its impressions and its rewards."""
    collection, key = await visit.collection(), visit.text("id")
    ratings = await visit.platform.analytics("rated", collection=collection.name, limit=_EVENTS)
    rows = sorted((row for row in ratings if row["item_id"] == key), key=lambda row: row["retrieved_at"])
    standing = (await collection.standings([key])).get(key) if key else None
    summary = (
        f"{standing.uses} verdicts, {standing.successes} of them good." if standing else "The item is no longer stored."
    )
    x_labels = [f"{row['retrieved_at']:%d %b %H:%M}" for row in rows]
    drawing = (
        plots.lines(
            "Rewards by event",
            x_labels,
            [Series("reward", [float(row["reward"]) for row in rows])],
            least=0.0,
            most=1.0,
        )
        if rows
        else h.p(".hint")["No hit of a recorded search with this item was rated."]
    )
    numbers = [tuple(row.values()) for row in rows]
    sql = f"{plots.sql_of('rated', collection.name)} AND item_id = {plots.literal(key)}\nORDER BY retrieved_at"
    links = [
        h.li[
            h.a(href=visit.url("/learning/search", collection=collection.name, id=row["retrieval_id"]))[
                shown_value(row["retrieved_at"])
            ],
            f": rank {row['rank']}, reward {row['reward']:.3g}",
        ]
        for row in rows[-_BARS:]
    ]
    note = f"Only the last {_EVENTS:,} rated hits of the collection were searched; the SQL reads all."
    return await page(visit, f"Feedback on {key}", [
        h.p[summary],
        h.p(".note")[note] if len(ratings) == _EVENTS else None,
        plots.figure("Rewards of this item", drawing, ratings.columns, numbers, sql),
        h.section(".card")[h.h2["The latest searches that showed the item"], h.ul[links]] if links else None,
    ], chooses=False)  # fmt: skip


async def search(visit: Visit) -> h.Node:
    """A recorded search, and its replay."""
    name = visit.text("collection")
    recorded = await visit.platform.retrieval(visit.text("id"), name)
    try:
        replay: h.Node = _replay(await visit.platform.replay(visit.text("id"), name))
    except RetrievalError as error:
        replay = problem_box("This search cannot be replayed", problem_of(error)["detail"])
    return await page(
        visit, recorded.query or "A search by a vector", [_recorded(visit, recorded), replay], chooses=False
    )


def _recorded(visit: Visit, record: RecordedRetrieval) -> h.Node:
    names = list(dict.fromkeys(part for impression in record.impressions for part in impression.signals))
    facts = {
        "when": shown_value(record.retrieved_at), "collection": record.collection,
        "profile": str(record.profile_version or "its own"), "model": str(record.model_version or "none"),
        "policy": record.policy, "path": record.path, "filter": shown_value(dict(record.where)),
        "candidates": f"{record.candidates:,}",
    }  # fmt: skip
    rows = [
        (
            str(impression.rank),
            h.a(href=visit.url("/data/item", collection=record.collection, id=impression.item_id))[impression.item_id],
            f"{impression.score:.4f}",
            plots.stacked_bar(_values(impression.signals), names),
            impression.slot.value,
            f"{impression.propensity:.3g}",
        )
        for impression in record.impressions
    ]
    numbers = [
        (
            impression.rank,
            impression.item_id,
            impression.score,
            *(_values(impression.signals).get(name) for name in names),
        )
        for impression in record.impressions
    ]
    columns = ("rank", "item", "score", "parts", "slot", "propensity")
    drawing = [plots.legend(names), table(columns, rows, caption="The hits", numbers=("score",))]
    sql = plots.sql_of_hits(record.retrieval_id)
    return [
        h.section(".card")[h.dl[((h.dt[label], h.dd[value]) for label, value in facts.items())]],
        plots.figure("The hits", drawing, ("rank", "item", "score", *names), numbers, sql),
        plots.timings(record.retrieval_id, record.timings_ms, record.retrieval_time_ms),
    ]


def _values(signals: Mapping[str, Any]) -> dict[str, float]:
    """The contributions of a recorded hit; empty if its profile no longer exists."""
    return {name: float(part.get("value") or 0.0) for name, part in signals.items() if isinstance(part, Mapping)}


def _replay(replay: Replay) -> h.Node:
    rows = [
        (
            difference.item_id,
            shown_value(difference.rank_then),
            shown_value(difference.rank_now),
            "; ".join(difference.why),
        )
        for difference in replay.differences
    ]
    return h.section(".card", aria_label="Replay")[
        h.h2["Replay"],
        h.p["Its ranking follows from its record." if replay.is_reproduced else "; ".join(replay.why_not)],
        h.p["Today's answer is the same."] if replay.is_same_today else [
            (h.p(".note")[change] for change in replay.changes),
            table(("item", "rank then", "rank now", "why"), rows, caption="Differences today"),
        ],
    ]  # fmt: skip


ROUTES: tuple[Route, ...] = (
    view("/learning", learning, needs=Scope.READ),
    view("/learning/item", item, needs=Scope.READ),
    view("/learning/search", search, needs=Scope.READ),
    view("/learning/learn", learn, needs=Scope.ADMIN, method="POST"),
)
