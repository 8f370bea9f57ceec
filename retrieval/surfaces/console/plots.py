"""Plots as SVG, drawn on the server, each with its numbers as a table and the SQL that selects them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import htpy as h
from psycopg.sql import Literal

from retrieval.domain.records.analytics import AnalyticsTable
from retrieval.surfaces.console.frame import shown_value, table

WIDTH, HEIGHT = 640.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 12.0, 12.0, 28.0
_COLOURS = 8
_STAGES = ("embed", "candidates", "learn", "rerank", "items")
"""The stages of a search, in order."""
MOST_POINTS = 400
"""The most points of a line; of more points, evenly spaced ones are drawn."""


def svg(width: float, height: float, label: str, content: h.Node, *, stretches: bool = False) -> h.Element:
    """A drawing; ``label`` is a sentence about its content."""
    return h.Element("svg")(
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=label,
        preserveAspectRatio="none" if stretches else None,
        class_="plot",
    )[content]


def _rect(box: tuple[float, float, float, float], kind: str, title: str) -> h.Element:
    """A bar; ``box``: its left end, top, width and height."""
    x, y, width, height = box
    return h.Element("rect")(
        x=f"{x:.2f}", y=f"{y:.2f}", width=f"{max(width, 0.0):.2f}", height=f"{height:.2f}", class_=kind
    )[h.Element("title")[title]]


def _text(x: float, y: float, text: str, anchor: str = "start") -> h.Element:
    return h.Element("text")(x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)[text]


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> h.Element:
    return h.Element("line")(x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", class_=kind)


def colour(index: int) -> str:
    """The CSS class of the colour at that position of a legend."""
    return f"c{index % _COLOURS}"


def stacked_bar(parts: Mapping[str, float], names: Sequence[str], *, whole: float | None = None) -> h.Element:
    """The parts of a sum side by side; a name has the same colour in all bars with the same ``names``.

    ``whole``: the value of the full width; None: the sum of the parts. A part below 0 fades the part that it subtracts.
    """
    end = sum(value for value in parts.values() if value > 0)
    scale = 100.0 / (whole or end or 1.0)
    position, shapes = 0.0, []
    for name, value in sorted(parts.items(), key=lambda part: part[1] < 0):
        kind = colour(names.index(name) if name in names else len(names)) if value >= 0 else "fades"
        begin = position if value >= 0 else position + value
        shapes.append(_rect((begin * scale, 0, abs(value) * scale, 10), kind, f"{name}: {value:.5f}"))
        position += value
    summary = ", ".join(f"{name} {value:.4g}" for name, value in parts.items()) or "nothing"
    return h.div(".bar")[svg(100, 10, f"The parts of the score: {summary}", shapes, stretches=True)]


def legend(names: Sequence[str]) -> h.Element:
    """The legend of the colours."""
    return h.ul(".legend")[
        (
            h.li[
                h.Element("svg")(viewBox="0 0 10 10", aria_hidden="true")[
                    h.Element("rect")(width="10", height="10", class_=colour(index))
                ],
                name,
            ]
            for index, name in enumerate(names)
        )
    ]


def waterfall(stages: Mapping[str, float], total: float) -> h.Element:
    """The stages one after the other, each with its milliseconds as length."""
    rows, begin = [], 0.0
    scale = (WIDTH - 190) / max(total, sum(stages.values()), 0.001)
    for index, (name, spent) in enumerate(stages.items()):
        y = 6.0 + index * 22
        rows.append(_text(0, y + 12, name))
        box = (110 + begin * scale, y, max(spent * scale, 1.5), 14)
        rows.append(_rect(box, colour(index), f"{name}: {spent:.2f} ms"))
        rows.append(_text(116 + (begin + spent) * scale, y + 12, f"{spent:.1f} ms"))
        begin += spent
    return svg(WIDTH, 12.0 + 22 * max(len(stages), 1), f"The stages of the search, {total:.1f} ms in all", rows)


@dataclass(frozen=True, slots=True)
class Series:
    """A line: its name and its points; ``low`` and ``high``: the ends of their intervals, if any."""

    name: str
    values: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()


def lines(
    label: str, x_labels: Sequence[str], series: Sequence[Series], *, least: float | None = None,
    most: float | None = None, mark: float | None = None,
) -> h.Element:  # fmt: skip
    """Lines over the same positions, with their intervals as bands; ``mark``: a dashed level for comparison."""
    step = max(1, math.ceil(len(x_labels) / MOST_POINTS))
    values = [v for line in series for part in (line.values, line.low, line.high) for v in part if v is not None]
    values += [mark] if mark is not None else []
    low = least if least is not None else min([*values, 0.0])
    high = most if most is not None else max([*values, low + 1e-9]) * 1.05
    high = high if high > low else low + 1.0

    def x(index: int) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (index / max(len(x_labels) - 1, 1) if len(x_labels) > 1 else 0.5)

    def y(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * share

    shapes: list[h.Node] = [_axes(x_labels, low, high, x, y)]
    if mark is not None:
        shapes.append(_line(_LEFT, y(mark), WIDTH - _RIGHT, y(mark), "mark"))
    for number, line in enumerate(series):
        shapes.append(_series(line, number, step, x, y))
    return h.div[svg(WIDTH, HEIGHT, label, shapes), legend([line.name for line in series])]


_Scale = Callable[[Any], float]


def _axes(x_labels: Sequence[str], low: float, high: float, x: _Scale, y: _Scale) -> h.Node:
    ticks = [low + (high - low) * part / 4 for part in range(5)]
    labelled = sorted({0, len(x_labels) // 2, len(x_labels) - 1} if x_labels else set())
    anchors = {0: "start", len(x_labels) - 1: "end"} if len(x_labels) > 1 else {}
    return [
        (
            (
                _line(_LEFT, y(tick), WIDTH - _RIGHT, y(tick), "grid"),
                _text(_LEFT - 6, y(tick) + 4, f"{tick:.3g}", "end"),
            )
            for tick in ticks
        ),
        (_text(x(index), HEIGHT - 8, x_labels[index], anchors.get(index, "middle")) for index in labelled),
    ]


def _series(series: Series, number: int, step: int, x: _Scale, y: _Scale) -> h.Node:
    points = [
        (x(index), y(value)) for index, value in enumerate(series.values) if value is not None and index % step == 0
    ]
    band = [
        (x(index), y(low), y(high))
        for index, (low, high) in enumerate(zip(series.low, series.high, strict=False))
        if low is not None and high is not None and index % step == 0
    ]
    shapes: list[h.Node] = []
    if len(band) > 1:
        outline = [(at, top) for at, _, top in band] + [(at, low) for at, low, _ in reversed(band)]
        shapes.append(h.Element("polygon")(points=_points(outline), class_=f"band {colour(number)}"))
    else:
        shapes += [_line(at, low, at, high, f"whisker {colour(number)}") for at, low, high in band]
    if len(points) > 1:
        shapes.append(h.Element("polyline")(points=_points(points), class_=f"line {colour(number)}"))
    if len(points) <= 60:
        shapes += [
            h.Element("circle")(cx=f"{at:.1f}", cy=f"{height:.1f}", r="3", class_=colour(number))
            for at, height in points
        ]
    return shapes


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def distinct_names(names: Sequence[str], keys: Sequence[str]) -> list[str]:
    """The names; repeated names are prefixed with their keys."""
    return [
        name if names.count(name) == 1 else f"{key}: {name}" for name, key in zip(names, keys, strict=True)
    ]  # fmt: skip


def interval(mean: float, error: float | None) -> tuple[float, ...]:
    """The mean with the ends of its 95 % interval; alone without a standard error."""
    return (mean,) if error is None else (mean, mean - 1.96 * error, mean + 1.96 * error)


def bars(label: str, values: Mapping[str, Sequence[float]]) -> h.Element:
    """Horizontal bars, one below the other: the value of each, and the ends of its interval, if any."""
    scale = (WIDTH - 330) / max([1e-9, *(abs(end) for ends in values.values() for end in ends)])
    shapes: list[h.Node] = []
    for index, (name, ends) in enumerate(values.items()):
        y, value = 4.0 + index * 24, ends[0]
        shapes += [
            _text(0, y + 13, name if len(name) <= 30 else f"{name[:29]}…"),
            _rect((220, y, abs(value) * scale, 16), "c1" if value < 0 else "c0", f"{name}: {value:.4g}"),
            _text(226 + max(map(abs, ends)) * scale, y + 13, f"{value:.3g}"),
        ]
        if len(ends) > 1:
            shapes.append(_line(220 + ends[1] * scale, y + 8, 220 + ends[2] * scale, y + 8, "whisker"))
    return svg(WIDTH, 8.0 + 24 * max(len(values), 1), label, shapes)


def figure(
    title: str, drawing: h.Node, columns: Sequence[str], rows: Iterable[Iterable[object]], sql: str
) -> h.Element:
    """A plot with its title, its numbers as a table and the SQL to copy; no SQL if the numbers are not stored."""
    cells = [[shown_value(value) for value in row] for row in rows]
    return h.figure(".card")[
        h.figcaption[title],
        drawing,
        h.details[
            h.summary[f"Numbers ({len(cells):,})"],
            table(columns, cells[:MOST_POINTS], caption=title),
            h.p(".hint")[f"The first {MOST_POINTS} rows; the SQL gives all."] if len(cells) > MOST_POINTS else None,
        ],
        sql_to_copy(sql) if sql else None,
    ]


def stored_figure(title: str, drawing: h.Node, numbers: AnalyticsTable, collection: str) -> h.Element:
    """A plot of the figures of a collection that a view of the database has."""
    return figure(title, drawing, numbers.columns, numbers.values, sql_of(numbers.view, collection))


def timings(retrieval_id: object, stages: Mapping[str, float], total: float) -> h.Element:
    """The times of a search's stages; without ``retrieval_id``, of an unrecorded search, there is no SQL."""
    # The database does not store the order of the stages.
    order = [*_STAGES, *stages]
    ordered = {name: stages[name] for name in dict.fromkeys(order) if name in stages and name != "total"}
    whole = "r.timings_ms || jsonb_build_object('total', r.retrieval_time_ms)"
    sql = f"SELECT s.key AS stage, s.value AS milliseconds\nFROM retrievals AS r, jsonb_each({whole}) AS s\n"
    sql += f"WHERE r.retrieval_id = {literal(str(retrieval_id))}"
    drawing, rows = waterfall(ordered, total), [*ordered.items(), ("total", total)]
    return figure("Where the time went", drawing, ("stage", "milliseconds"), rows, sql if retrieval_id else "")


def sql_to_copy(sql: str) -> h.Element:
    """A statement to copy, for an analyst's login, which reads one tenant."""
    return h.details[
        h.summary["SQL"], h.pre(tabindex="0")[h.code[sql]], h.button(".quiet", type="button", data_copies=sql)["Copy"]
    ]


def literal(text: str) -> str:
    """A text as an SQL literal, for a statement that the console displays and never runs."""
    return Literal(text).as_string().strip()


LISTS = frozenset({"losses", "queries", "rated", "recall", "unused_items", "usage"})
"""The figures that are views; the others are functions of a collection."""


def sql_of(name: str, collection: str) -> str:
    """The statement that selects the figures of one collection."""
    name_literal = literal(collection)
    where = (
        f"analytics_{name}\nWHERE collection = {name_literal}" if name in LISTS else f"analytics_{name}({name_literal})"
    )
    return f"SELECT *\nFROM {where}"


def sql_of_hits(retrieval_id: object) -> str:
    """The statement that selects the hits of a recorded search with the ranks and scores of its legs."""
    id_literal = literal(str(retrieval_id))
    columns = "rank, item_id, score, signals, slot, propensity"
    return f"SELECT {columns}\nFROM impressions\nWHERE retrieval_id = {id_literal}\nORDER BY rank"
