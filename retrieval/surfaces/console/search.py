"""The Search view: queries, filters to tick, explanations of hits, and sliders for weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import htpy as h
from markupsafe import Markup
from starlette.datastructures import FormData
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from retrieval.collection import Collection
from retrieval.domain.api_key import Scope
from retrieval.domain.items.collection import COUNTED_FIELDS
from retrieval.domain.learning.feedback import Feedback
from retrieval.domain.search.filters import Field, field_name
from retrieval.domain.search.hit import Hit, SearchResult
from retrieval.domain.search.preview import PreviewedHit, ProfilePreview
from retrieval.domain.search.profile import MAX_WEIGHT, Profile
from retrieval.surfaces.console.frame import Visit, empty, notice, page, problem_box, table, text_field, view
from retrieval.surfaces.console.plots import legend, sql_of_hits, sql_to_copy, stacked_bar, timings
from retrieval.surfaces.http.json_bodies import object_of

HITS = 10
SNIPPET = 280
_EXAMINED, _MOST_FACETS, _MOST_VALUES = 100, 6, 12
"""The numbers of items that are examined for facets, of offered facets, and of displayed values per facet."""
_LONGEST_VALUE = 40

_MEANINGS = {"dense": "by meaning", "lexical": "by words"}
"""The help texts of sliders whose names need an explanation."""

_PARAMETERS = ("collection", "q", "where", "facet")
"""The parameters of a search's address, apart from filters and weights."""

Weights = Mapping[str, float]


async def search(visit: Visit) -> h.Node:
    """The whole view, with the results if the URL has a query."""
    if not visit.text("collection"):
        return await _without_collection(visit)
    collection = await visit.collection()
    named = [name.removeprefix("f.") for name in visit.request.query_params if name.startswith("f.")]
    offered = list(dict.fromkeys([*(visit.texts("facet") or await facets_of(collection)), *named]))
    query = visit.text("q").strip()
    content = await _results(visit, collection, offered) if query else await _start(visit, collection)
    # The return key in a filter is also its change: the delay makes them one search. A second one replaces the first.
    form = h.form("#ask", method="get", action=visit.url("/search"), hx_get=visit.url("/search"), hx_target="#found",
                  hx_select="#found", hx_swap="outerHTML", hx_push_url="true", hx_sync="this:replace",
                  hx_trigger="submit, change delay:10ms target:(.filters input)",
                  hx_disinherit="*", role="search")[
        h.input(type="hidden", name="collection", value=collection.name),
        (h.input(type="hidden", name="facet", value=name) for name in offered),
        h.div(".question")[
            h.label(".unseen", for_="q")["Question"],
            h.input("#q", type="search", name="q", value=query, autocomplete="off", autofocus=not query,
                    placeholder='Words, a "phrase", -without, or a question'),
            h.button(type="submit")["Search"],
        ],
        h.div("#found")[content],
    ]  # fmt: skip
    # The fields for saving lie inside the search form, whose weights they submit too, but belong to this form, so that
    # the return key in them saves.
    save_form = h.form("#save", hx_post=visit.url("/search/save"), hx_include="#ask", hx_target="#saving",
                       hx_sync="this:drop")  # fmt: skip
    return await page(visit, "Search", [form, save_form if visit.may(Scope.ADMIN) else None])


async def _without_collection(visit: Visit) -> h.Node:
    names = [collection.name for collection in await visit.platform.collections()]
    if not names:
        link = h.p["Import some under ", h.a(href=visit.url("/data"))["Data"], "."] if visit.may(Scope.WRITE) else None
        return await page(visit, "Search", empty("There are no collections yet.", link), chooses=False)
    links = h.ul(".choices")[(h.li[h.a(href=visit.url("/search", collection=name))[name]] for name in names)]
    return await page(visit, "Search", h.div(".card")[h.h2["Which collection?"], links], chooses=False)


async def _start(visit: Visit, collection: Collection) -> h.Node:
    info = await collection.info()
    if not info.items + info.pending:
        return empty("This collection has no items yet.")
    latest = dict.fromkeys(retrieval.query for retrieval in await collection.retrievals(limit=30) if retrieval.query)
    name = collection.name
    links = [h.li[h.a(href=visit.url("/search", collection=name, q=query))[query]] for query in list(latest)[:8]]
    recent = h.div[h.p["Recent questions:"], h.ul(".choices")[links]] if links else None
    return empty("Type a question: the answer shows why each item has its rank.", recent)


async def facets_of(collection: Collection) -> list[str]:
    """The keys of a filter for the fields worth filtering by: short texts that several of the first items share."""
    items = [stored.item for stored in await collection.page(limit=_EXAMINED)]
    values: dict[str, list[str]] = {}
    for item in items:
        for name, value in item.attributes.items():
            if isinstance(value, str) and 0 < len(value) <= _LONGEST_VALUE:
                values.setdefault(field_name(Field(name, is_attribute=True)), []).append(value)
    shared = [name for name, texts in values.items() if 1 < len(set(texts)) <= max(len(texts) // 2, 2)]
    shared.sort(key=lambda name: (-len(values[name]), name))
    fields = [name for name in COUNTED_FIELDS if len({str(getattr(item, name)) for item in items}) > 1]
    return [*shared, *fields][:_MOST_FACETS]


def filter_of(visit: Visit, offered: Iterable[str]) -> dict[str, Any] | None:
    """The filter of the ticked values and the typed filter. Raises ``InvalidRequestError`` unless it is an object."""
    where: dict[str, Any] = {name: chosen for name in offered if (chosen := visit.texts(f"f.{name}"))}
    period = {side: value for side in ("gte", "lt") if (value := visit.text(f"when.{side}"))}
    if period:
        where["occurred_at"] = period
    typed = object_of("where", visit.text("where").strip() or None)
    return {"and": [where, typed]} if where and typed else where or typed or None


async def _results(visit: Visit, collection: Collection, offered: Sequence[str], *, done: h.Node = None) -> h.Node:
    where = filter_of(visit, offered)
    result = await collection.search(
        visit.text("q"), where=where, limit=HITS, snippet=SNIPPET, facets=offered, after=visit.text("after"), typos=True
    )
    counts = {**result.facets, **await _other_values(visit, collection, offered)}
    names = _names(result)
    sql = sql_to_copy(sql_of_hits(result.retrieval_id)) if result.retrieval_id else None
    return [
        h.div(".three")[
            h.a(".skip", href="#answer")["Skip to the answer"],
            _filters(visit, counts, offered),
            h.div("#answer.hits", tabindex="-1")[
                h.p(".summary")[_summary(result)],
                (h.p(".note")[note] for note in (*result.notes, *result.why_no_hits)),
                _tuning(visit, collection.profile),
                h.div("#tuned")[done or await _comparison(visit, collection, where)],
                [legend(names), h.ol(".results", start=str(result[0].rank))[
                    (_hit(visit, hit, result, names) for hit in result)
                ], sql] if len(result) else empty("Nothing was found."),
                _pages(visit, result),
                timings(result.retrieval_id, result.timings_ms, result.timings_ms.get("total", 0.0)),
            ],
        ]
    ]  # fmt: skip


async def _other_values(visit: Visit, collection: Collection, offered: Sequence[str]) -> dict[str, Mapping[str, int]]:
    """The counts of each field with ticked values, without the field's own filter, so that others can be ticked."""
    counts = {}
    for name in (field for field in offered if visit.texts(f"f.{field}")):
        where = filter_of(visit, [field for field in offered if field != name])
        result = await collection.unrecorded().search(visit.text("q"), where=where, limit=1, facets=[name], typos=True)
        counts[name] = result.facets[name]
    return counts


def _names(hits: Iterable[Hit]) -> list[str]:
    """The names of the parts of these hits' scores, in order of appearance."""
    return list(dict.fromkeys(part.leg for hit in hits for part in hit.explanation.contributions))


def _parts(hit: Hit) -> dict[str, float]:
    return {part.leg: part.value for part in hit.explanation.contributions}


def _summary(result: SearchResult) -> h.Node:
    total = result.timings_ms.get("total", 0.0)
    version = f"profile {result.profile_version}" if result.profile_version else "its own profile"
    return [
        f"{len(result)} {'hit' if len(result) == 1 else 'hits'} in {total:.0f} ms by {version}; ",
        "the search by meaning was ",
        h.strong[result.path.value],
        f": {result.why}.",
    ]


def _filters(visit: Visit, counts: Mapping[str, Mapping[str, int]], offered: Sequence[str]) -> h.Node:
    return h.aside(".filters", aria_label="Filters")[
        h.details(open=True)[
            h.summary["Filters"],
            (_facet(visit, name, counts.get(name, {})) for name in offered),
            h.fieldset[
                h.legend["When"],
                text_field("when.gte", "from", visit.text("when.gte"), kind="date"),
                text_field("when.lt", "before", visit.text("when.lt"), kind="date"),
            ],
            h.details[
                h.summary["As JSON"],
                text_field("where", "filter", visit.text("where"), placeholder='{"priority": "High"}'),
            ],
            h.noscript[h.button(type="submit")["Filter"]],
        ]
    ]


def _facet(visit: Visit, name: str, counts: Mapping[str, int]) -> h.Node:
    chosen = visit.texts(f"f.{name}")
    values = dict.fromkeys([*chosen, *list(counts)[:_MOST_VALUES]])
    if not values:
        return None
    return h.fieldset[
        h.legend[name],
        (
            h.label(".tick")[
                h.input(id=f"tick-{_digest(name, value)}", type="checkbox", name=f"f.{name}", value=value,
                        checked=value in chosen),
                h.span[value],
                h.span(".count")[f"{counts[value]:,}" if value in counts else ""],
            ]
            for value in values
        ),
    ]  # fmt: skip


def _digest(*parts: str) -> str:
    """An element's id from a text, so that the focus returns to the element after a swap."""
    return hashlib.blake2s(json.dumps(parts).encode(), digest_size=8).hexdigest()


def _hit(visit: Visit, hit: Hit, result: SearchResult, names: Sequence[str]) -> h.Node:
    best = max(result[0].score, hit.score)
    address = visit.url("/data/item", collection=visit.text("collection"), id=hit.item_id)
    return h.li(".card")[
        h.h2[h.a(href=address)[hit.title or hit.item_id]],
        h.p(".snippet")[Markup(hit.snippet.html) if hit.snippet else hit.body[:SNIPPET]],  # noqa: S704 - it is escaped
        h.p(".facts")[
            h.span(".score")[f"{hit.score:.4f}"],
            h.span[f"{hit.relevance:.0%} relevant"] if hit.relevance is not None else None,
            h.span(".explored")["explored"] if hit.slot.value != "exploit" else None,
            h.span[hit.item_id],
            h.span[f"{hit.occurred_at:%Y-%m-%d}"] if hit.occurred_at else None,
            (h.span(".tag")[tag] for tag in hit.tags),
        ],
        stacked_bar(_parts(hit), names, whole=best or None),
        h.div(".row")[
            h.details(".why")[h.summary["Why here?"], _explanation(hit)],
            h.div(".verdict")[_verdict(visit, result.retrieval_id, hit.item_id, hit.title or hit.item_id)]
            if visit.may(Scope.FEEDBACK) and result.retrieval_id
            else None,
        ],
    ]  # fmt: skip


def _explanation(hit: Hit) -> h.Node:
    rows = [
        (part.leg, str(part.rank), f"{part.raw_score:.4f}", f"{part.weight:g}", f"{part.value:.5f}")
        for part in hit.explanation.contributions
    ]
    columns = ("part", "rank", "raw score", "weight", "contribution")
    total = ("sum", "", "", "", f"{hit.explanation.score:.5f}")
    fusion = hit.explanation.fusion
    return [
        table(columns, [*rows, total], caption=f"The score of {hit.item_id} ({fusion})", numbers=columns[1:]),
        h.p(".hint")[f"Shown with probability {hit.propensity:.3g}, as {hit.slot.value}."],
    ]


def _verdict(visit: Visit, retrieval_id: object, item_id: str, title: str) -> h.Node:
    def button(text: str, *, is_helpful: bool) -> h.Node:
        values = {"retrieval": str(retrieval_id), "item": item_id, "title": title, "helpful": str(is_helpful).lower()}
        key = f"{'helpful' if is_helpful else 'not-helpful'}-{_digest(item_id)}"
        return h.button(".quiet", id=key, type="button", hx_post=visit.url("/feedback"), hx_vals=json.dumps(values),
                        hx_params="retrieval,item,title,helpful", hx_target="closest .verdict", hx_swap="outerHTML",
                        hx_sync="closest .verdict:drop",
                        aria_label=f"{text}: {title}")[text]  # fmt: skip

    return [button("Helpful", is_helpful=True), button("Not helpful", is_helpful=False)]


async def feedback(visit: Visit) -> h.Node:
    """Store a verdict on a hit, with the weight and the cap of the key. Another verdict replaces it."""
    event = Feedback(
        retrieval_id=visit.text("retrieval"), item_id=visit.text("item"), helpful=visit.text("helpful") == "true",
        actor=f"console {visit.caller.key_id}".strip(),
    )  # fmt: skip
    report = await visit.platform.feedback_each([event], api_key=visit.caller.key, new=True)
    noted = "Noted: " + ("helpful" if event.reward else "not helpful")
    if report.discounted:
        noted = "Noted, but it does not count: " + ", ".join(report.discounted)
    return h.div(".verdict")[
        notice(noted), _verdict(visit, visit.text("retrieval"), visit.text("item"), visit.text("title"))
    ]


def _pages(visit: Visit, result: SearchResult) -> h.Node:
    more = _address(visit, after=result.next) if result.next and len(result) == HITS else None
    if not visit.text("after") and more is None:
        return None
    return h.nav(".pages", aria_label="Pages")[
        h.a(href=_address(visit))["First page"] if visit.text("after") else None,
        h.a(href=more, rel="next")["Next page"] if more else None,
    ]


def _address(visit: Visit, *, has_weights: bool = True, **more: object) -> str:
    """The URL of the first page of the query, with its filters and weights."""
    names = dict.fromkeys([*visit.request.query_params, *visit.form])
    kinds = ("f.", "when.", *(("w.",) if has_weights else ()))
    parameters = {name: visit.texts(name) for name in names if name in _PARAMETERS or name.startswith(kinds)}
    return visit.url("/search", **parameters, **more)


def weights_of(visit: Visit, profile: Profile) -> dict[str, float]:
    """The weights of the sliders; without sliders, the profile's weights."""
    return {
        name: visit.number(f"w.{name}", weight, 0.0, MAX_WEIGHT) for name, weight in _slider_weights(profile).items()
    }  # fmt: skip


def _slider_weights(profile: Profile) -> dict[str, float]:
    """The weights with a slider: those of the signals, or of the legs, with the two legs of every collection."""
    if profile.signals:
        return dict(profile.weights)
    return {**dict.fromkeys(("dense", "lexical"), 0.0), **profile.legs}


def weighted(profile: Profile, weights: Weights) -> Profile:
    """The same profile with these weights; a new leg without weight is left out."""
    if profile.signals:
        return replace(
            profile, signals=tuple(replace(signal, weight=weights[signal.key]) for signal in profile.signals)
        )
    return replace(profile, legs={name: w for name, w in weights.items() if w or name in profile.legs})


def _tuning(visit: Visit, profile: Profile) -> h.Node:
    weights, own = weights_of(visit, profile), _slider_weights(profile)
    most = max(2 * max(own.values()), 1.0)
    return h.section(".card.sliders", aria_label="Weights", hx_get=visit.url("/search/preview"), hx_include="#ask",
                     hx_target="#tuned", hx_trigger="input delay:120ms", hx_sync="this:replace")[
        h.div(".row")[
            h.h2["Weights"],
            h.button(".quiet", type="button", data_resets="")["Back to the profile's"],
        ],
        (
            h.div(".slider")[
                h.label(for_=f"w-{name.replace(':', '-')}")[name, " ", h.small[_MEANINGS.get(name, "")]],
                h.input(f"#w-{name.replace(':', '-')}", type="range", name=f"w.{name}", min="0", max=f"{most:g}",
                        step="any", value=str(weight), data_own=str(own[name])),
                h.output[f"{weight:.2f}"],
            ]
            for name, weight in weights.items()
        ),
        h.p(".hint")["Move a slider to rank the answer again at once. Nothing is stored until you save."],
    ]  # fmt: skip


async def preview(visit: Visit) -> Response:
    """The results of the profile and of the sliders side by side; the page's address gets weights that differ."""
    collection = await visit.collection()
    content = await _comparison(visit, collection, filter_of(visit, visit.texts("facet")))
    address = _address(visit, has_weights=content is not None)
    return HTMLResponse(str(h.fragment[content]), headers={"HX-Replace-Url": address})


async def _comparison(visit: Visit, collection: Collection, where: Mapping[str, Any] | None) -> h.Node:
    profile, weights = collection.profile, weights_of(visit, collection.profile)
    if not visit.text("q").strip() or weights == _slider_weights(profile):
        return None
    if not any(weights.values()):
        return problem_box("No ranking", "Give at least one part a weight above 0.")
    result = await collection.preview(
        visit.text("q"), where=where, limit=HITS, typos=True,
        profiles={"now": profile, "candidate": weighted(profile, weights)},
    )  # fmt: skip
    now, candidate = result.previews
    changes = sum(hit.moved != 0 for hit in candidate.hits) + len(candidate.left)
    names = _names(hit.hit for side in (now, candidate) for hit in side.hits)
    return h.section(".card.tuned", aria_label="Before and after")[
        h.p(role="status")[f"{changes} {'place changes' if changes == 1 else 'places change'} with these weights."],
        _save_fields() if visit.may(Scope.ADMIN) else None,
        legend(names),
        h.div(".two")[_side("Now", now, names), _side("With these weights", candidate, names, is_after=True)],
        _numbers_of(candidate, names),
    ]  # fmt: skip


def _side(title: str, preview: ProfilePreview, names: Sequence[str], *, is_after: bool = False) -> h.Node:
    best = max((hit.hit.score for hit in preview.hits), default=0.0)
    dropped = [h.li(".gone")[_moved(hit), h.span(".name")[hit.hit.title or hit.hit.item_id]] for hit in preview.left]
    return h.div[
        h.h3[title],
        h.ol[
            (
                h.li(title=hit.why if is_after else None)[
                    _moved(hit) if is_after else None,
                    h.span(".name")[hit.hit.title or hit.hit.item_id],
                    stacked_bar(_parts(hit.hit), names, whole=best or None),
                ]
                for hit in preview.hits
            )
        ],
        [h.h3["No longer shown"], h.ul[dropped]] if dropped else None,
    ]  # fmt: skip


def _moved(hit: PreviewedHit) -> h.Node:
    if hit.rank_before is None:
        return h.span(".moved.up")["new"]
    if hit.moved is None:
        return h.span(".moved.down")[f"was {hit.rank_before}"]
    if hit.moved == 0:
        return h.span(".moved")["="]
    return h.span(class_=["moved", "up" if hit.moved > 0 else "down"])[
        f"{'▲' if hit.moved > 0 else '▼'} {abs(hit.moved)}"
    ]


def _numbers_of(preview: ProfilePreview, names: Sequence[str]) -> h.Node:
    rows = [
        (str(rank), hit.hit.item_id, str(hit.rank_before or "–"), f"{hit.hit.score:.5f}",
         *(f"{_parts(hit.hit).get(name, 0.0):.5f}" for name in names))
        for rank, hit in enumerate(preview.hits, 1)
    ]  # fmt: skip
    columns = ("rank", "item", "rank now", "score", *names)
    numbers = table(columns, rows, caption="The answer with these weights", numbers=columns[2:])
    return h.details[h.summary["Numbers"], numbers]


def _save_fields() -> h.Node:
    return h.div("#saving.row")[
        h.label(for_="note")["Note"],
        h.input("#note", form="save", type="text", name="note", maxlength="200", placeholder="reason for these weights",
                hx_preserve="true"),
        h.button(form="save", type="submit")["Save as a new version"],
        h.button(form="save", type="submit", name="use", value="1")["Save and use"],
    ]  # fmt: skip


async def save(visit: Visit) -> h.Node | Response:
    """Store the weights as a new version of the profile, and use it if the request says so."""
    collection = await visit.collection()
    await collection.refresh()
    profile = weighted(collection.profile, weights_of(visit, collection.profile))
    is_used = bool(visit.text("use"))
    version = await collection.set_profile(profile, note=visit.text("note"), use=is_used)
    outcome = f": searches of the collection now use version {version}" if is_used else f" as version {version}"
    next_step = "compare or go back" if is_used else "compare and activate"
    # The buttons are removed, so the focus moves to the link.
    link = h.a(href=visit.url("/profiles", collection=collection.name), autofocus=True)[f"{next_step} under Profiles"]
    done = notice(f"Saved{outcome}; ", link, ".")
    if not is_used:
        return done
    await collection.refresh()
    fields = [(name, value) for name, value in visit.form.multi_items() if not name.startswith("w.")]
    without_weights = replace(visit, form=FormData(fields))
    content = await _results(without_weights, collection, without_weights.texts("facet"), done=done)
    headers = {"HX-Retarget": "#found", "HX-Reswap": "innerHTML", "HX-Replace-Url": _address(without_weights)}
    return HTMLResponse(str(h.fragment[content]), headers=headers)


ROUTES: tuple[Route, ...] = (
    view("/search", search, needs=Scope.READ),
    view("/search/preview", preview, needs=Scope.READ),
    view("/search/save", save, needs=Scope.ADMIN, method="POST"),
    view("/feedback", feedback, needs=Scope.FEEDBACK, method="POST"),
)
