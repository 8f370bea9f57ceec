"""The HTTP benchmark: its clients, the fusion of the bare route, and its report."""

from __future__ import annotations

import asyncio
import contextlib

import http_load
import http_services
import pytest
from http_client import LoadResult, posts, press

from retrieval.domain.search.fusion import Candidate, fuse
from retrieval.domain.search.profile import Fusion


async def test_every_client_sends_and_reads_until_the_time_is_over() -> None:
    """Answers count by status; those with 200 have a latency each."""
    bodies: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                bodies.append(await reader.readexactly(length))
                status = b"200 OK" if len(bodies) % 2 else b"422 No"
                writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/search"
        measured = await press(url, posts(url, [{"query": "a"}, {"query": "b"}]), clients=2, seconds=0.05)

    assert {*bodies} == {b'{"query": "a"}', b'{"query": "b"}'}
    assert set(measured.statuses) == {200, 422}
    assert measured.answered == measured.statuses[200] == len(measured.latencies)
    assert measured.a_second == pytest.approx(measured.answered / measured.seconds)


def test_the_bare_route_fuses_as_the_platform_does() -> None:
    """The same order, scores and parts, so that both answer the same."""
    rows = [("dense", "a", 0.9), ("dense", "b", 0.8), ("lexical", "b", 7.0), ("lexical", "c", 5.0), ("walked", "", 9.0)]
    weights = {"dense": 1.0, "lexical": 2.0}
    rankings = {
        leg: [
            Candidate(leg, item_id, rank, score)
            for rank, (_, item_id, score) in enumerate((row for row in rows if row[0] == leg), 1)
        ]
        for leg in weights
    }

    assert http_services.fused(rows, weights) == [
        (candidate.score, candidate.item_id, [part._asdict() for part in candidate.contributions])
        for candidate in fuse(rankings, weights, Fusion())
    ]


def test_targets_are_reported_with_the_results() -> None:
    """A service that fails, or falls behind, does not meet it."""
    ours, bare = (_service(name, latencies) for name, latencies in (("ours", 30), ("bare", 60)))
    rows = [http_load.row_of(ours), http_load.row_of(bare)]
    ratios = http_load.ratios_of(ours, bare)
    crowd = {"answered": 9, "turned_away": 5, "errors": 0, "searches_a_second": 25.0}

    assert ratios["throughput"] == 0.5
    assert ratios["by_processor_time"] == 0.5
    met = {
        target["what"]: target["met"]
        for target in http_load.targets_of({"rows": rows, "ratios": ratios, "crowd": crowd})
    }
    assert not met["throughput beside the bare route"]
    assert met["p99 beside the median"]
    assert met["throughput under the crowd beside 32 clients"]
    assert rows[0]["service_ms"] == pytest.approx(1e3 * 0.2 / 30, abs=1e-3)


def _service(name: str, answered: int) -> http_load.Service:
    measured = LoadResult(seconds=1.0, latencies=[0.01] * answered)
    measured.statuses[200] = answered
    service = http_load.Service(name, None, "")  # type: ignore[arg-type]
    service.rounds.append(measured)
    service.worked.append((0.2, 0.3, 0.01))
    return service
