"""Rerankers by HTTP against a real server, by an ONNX file, and by a language model."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from retrieval import Settings, connect
from retrieval.adapters.endpoints.rerank import SHAPES, EndpointReranker
from retrieval.adapters.llms.choice import ChosenLLM
from retrieval.adapters.llms.sim import SimFaults, SimLLM
from retrieval.adapters.rerankers import ChosenReranker, LLMReranker, OnnxReranker, configured_reranker
from retrieval.domain.errors import ConfigurationError, RerankerRejectedError, RerankerUnavailableError
from retrieval.domain.search.reranking import Reranker
from retrieval.testing import check_reranker, check_unreachable_reranker
from tests.support.onnx_file import write_cross_encoder
from tests.support.rerank_server import KEY, Fault, RerankServer, overlap, says

QUERY = "database timeout pool"
TEXTS = ["the cake", "the pool of the database", "database timeout"]


async def no_wait(_: float) -> None:
    """Return at once."""


def asking(server: RerankServer, shape: str, **others: Any) -> EndpointReranker:
    """A reranker of that shape."""
    return EndpointReranker(shape, model="small", base_url=f"{server.url}/{shape}", sleep=no_wait, **others)


@pytest.mark.parametrize("shape", SHAPES)
async def test_keeps_the_contract_of_rerankers(shape: str) -> None:
    """Each shape passes the conformance suite; TEI takes 32 texts at once, and gets no more."""
    async with RerankServer(most_texts=32 if shape == "tei" else 1000) as server:
        await check_reranker(lambda: asking(server, shape))


@pytest.mark.parametrize("shape", SHAPES)
async def test_the_contract_holds_without_a_server(shape: str) -> None:
    """A refused connection is unavailable, and it closes."""
    await check_unreachable_reranker(
        lambda: EndpointReranker(shape, model="small", base_url="http://127.0.0.1:1/v1", max_attempts=1)
    )


@pytest.mark.parametrize("shape", SHAPES)
async def test_scores_are_in_the_order_of_the_texts_and_usage_is_counted(shape: str) -> None:
    """The server answers best first."""
    async with RerankServer() as server:
        async with aclosing(asking(server, shape, api_key=KEY)) as reranker:
            assert await reranker.rerank(QUERY, TEXTS) == [overlap(QUERY, text) for text in TEXTS]
            assert reranker.name == f"{shape}/small"
            assert reranker.usage.requests == 1
            assert reranker.usage.tokens == (7 if shape in {"jina", "voyage"} else 0)
            assert await reranker.rerank(QUERY, []) == []
        [(_, headers, body)] = server.received
        assert headers["authorization"] == f"Bearer {KEY}"
        assert ("model" in body) == (shape != "tei")


ROW = {"index": 0, "relevance_score": 0.5}


LONG_KEY = "secret" * 30


async def is_said_in_a_row(_: dict[str, Any]) -> web.Response:
    """The key stands where the index should be."""
    return web.json_response({"results": [{"index": f"Bearer {LONG_KEY}", "relevance_score": 1.0}]})


async def is_said_twice(_: dict[str, Any]) -> web.Response:
    """The key is the name of two members."""
    return web.Response(text=f'{{"{LONG_KEY}": 1, "{LONG_KEY}": 2}}', content_type="application/json")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"results": [ROW]}, "gave 1 scores for 1 of 3 texts; it has to give one for each"),
        ({"results": [ROW, ROW, ROW]}, "gave 3 scores for 1 of 3 texts; it has to give one for each"),
        ({"results": [{**ROW, "index": 3}] * 3}, "its index has to be a whole number from 0 to 2"),
        ({"results": [{**ROW, "index": -1}]}, "its index has to be a whole number from 0 to 2"),
        ({"results": [{**ROW, "index": True}]}, "its index has to be a whole number"),
        ({"results": [{**ROW, "index": 0.0}]}, "its index has to be a whole number"),
        ({"results": [{"relevance_score": 0.5}]}, "its index has to be a whole number"),
        ({"results": ["text"]}, "gave 'text'; its index has to be a whole number"),
        ({"results": [{**ROW, "relevance_score": 4.5}]}, "its score has to be a probability, from 0 to 1"),
        ({"results": [{**ROW, "relevance_score": None}]}, "its score has to be a probability"),
        ({"results": [{**ROW, "relevance_score": "0.9"}]}, "its score has to be a probability"),
        ({"results": [{**ROW, "relevance_score": math.nan}]}, "cannot be used: not JSON: NaN is not a JSON number"),
        ({"results": "text"}, "gave no results"),
        ({"error": "no"}, "gave no results"),
        ("text", "not a JSON object"),
    ],
)
async def test_an_answer_that_lies_is_rejected(answer: Any, why: str) -> None:
    """Once: it would lie again."""
    async with RerankServer() as server:
        server.faults.append(says(answer))
        async with aclosing(asking(server, "cohere")) as reranker:
            with pytest.raises(RerankerRejectedError, match=re.escape(why)) as caught:
                await reranker.rerank(QUERY, TEXTS)
        assert "leave it out" not in str(caught.value), "that is for the writer of items"
        assert len(server.received) == 1


@pytest.mark.parametrize("says_it", [is_said_in_a_row, is_said_twice])
async def test_a_server_that_repeats_the_key_shows_it_to_nobody(says_it: Fault) -> None:
    """Not even a part of it, where the server's words are cut."""
    async with RerankServer() as server:
        server.faults.append(says_it)
        async with aclosing(asking(server, "cohere", api_key=LONG_KEY)) as reranker:
            with pytest.raises(RerankerRejectedError) as caught:
                await reranker.rerank(QUERY, TEXTS)
    assert "secret" not in str(caught.value)


async def test_a_server_without_a_key_gets_no_header_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor what the environment holds for OpenAI."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", KEY)
    async with RerankServer() as server:
        async with aclosing(asking(server, "tei")) as reranker:
            await reranker.rerank(QUERY, TEXTS)
        [(_, headers, _)] = server.received
        assert "authorization" not in headers
        assert KEY not in headers.values()


@pytest.mark.parametrize("status", [302, 307, 308])
async def test_texts_go_to_the_host_that_was_set_and_nowhere_else(status: int) -> None:
    """A redirect is not followed; embedders and language models have the same client."""
    async with RerankServer() as server, RerankServer() as other:

        async def elsewhere(_: dict[str, Any]) -> web.Response:
            return web.Response(status=status, headers={"Location": f"{other.url}/tei/rerank"})

        server.faults.append(elsewhere)
        async with aclosing(asking(server, "tei")) as reranker:
            with pytest.raises(RerankerRejectedError, match=rf"redirect \({status}\).*not followed"):
                await reranker.rerank(QUERY, TEXTS)
        assert other.received == []


async def test_a_cosine_below_zero_counts_as_zero() -> None:
    """Some models answer with a cosine."""
    rows = [{"index": place, "relevance_score": score} for place, score in enumerate((-0.3, 0.25, 1))]
    async with RerankServer() as server:
        server.faults.append(says({"results": rows}))
        async with aclosing(asking(server, "jina")) as reranker:
            assert await reranker.rerank(QUERY, TEXTS) == [0.0, 0.25, 1.0]


@pytest.mark.parametrize(("status", "attempts"), [(500, 2), (429, 2), (401, 1), (404, 1), (422, 1)])
async def test_temporary_errors_are_retried(status: int, attempts: int) -> None:
    """The message never has the key."""
    async with RerankServer() as server:
        server.faults.extend([says({"message": f"no: {KEY}"}, status)] * 5)
        kind = RerankerUnavailableError if attempts == 2 else RerankerRejectedError
        async with aclosing(asking(server, "voyage", api_key=KEY)) as reranker:
            with pytest.raises(kind) as caught:
                await reranker.rerank(QUERY, TEXTS)
        assert KEY not in str(caught.value)
        assert len(server.received) == attempts


@pytest.mark.parametrize("logits", [1, 2])
async def test_a_cross_encoder_file_keeps_the_contract_and_gives_its_probabilities(tmp_path: Path, logits: int) -> None:
    """One logit goes through the logistic function, two through the softmax, which is the same here."""
    folder = write_cross_encoder(tmp_path / "tiny", logits=logits)
    reranker = OnnxReranker(folder)
    assert reranker.name == "onnx/tiny"
    assert reranker.needs_loading
    scores = await reranker.rerank(QUERY, TEXTS)
    # "the", "of" and "cake" are other words; what the tokenizer does not know is one word.
    assert scores == pytest.approx([1 / (1 + math.exp(2 - common)) for common in (0, 2, 2)], abs=1e-6)
    assert not reranker.needs_loading
    await reranker.aclose()
    await check_reranker(lambda: OnnxReranker(folder / "model.onnx"))


async def test_files_that_are_not_a_cross_encoder_are_refused(tmp_path: Path) -> None:
    """Missing ones at once, damaged ones with the first call."""
    with pytest.raises(ConfigurationError, match="RETRIEVAL_RERANKER_MODEL"):
        OnnxReranker(tmp_path)
    folder = write_cross_encoder(tmp_path / "tiny")
    (folder / "model.onnx").write_bytes(b"no model")
    assert "Protobuf parsing failed" in await fault_of(folder)
    (folder / "tokenizer.json").write_text("{}")
    assert "tokenizer.json cannot be read: Model missing" in await fault_of(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ConfigurationError, match=r"no tokenizer\.json"):
        OnnxReranker(folder)


async def test_a_refused_file_is_loaded_once(tmp_path: Path) -> None:
    """Loading takes seconds, which every search would wait for; a new process reads the mended file."""
    folder = write_cross_encoder(tmp_path / "tiny")
    whole = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(b"no model")
    async with aclosing(OnnxReranker(folder)) as reranker:
        for _ in range(2):
            with pytest.raises(RerankerRejectedError, match="Protobuf parsing failed"):
                await reranker.rerank(QUERY, TEXTS)
            assert not reranker.needs_loading
            (folder / "model.onnx").write_bytes(whole)
    await check_reranker(lambda: OnnxReranker(folder))


async def test_a_platform_makes_its_reranker_when_it_opens(
    database_url: str, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first search has its whole time for the reranker; one that cannot be made does not keep it closed."""
    made: list[str] = []

    def making(settings: Settings, llm: ChosenLLM) -> Reranker | None:
        made.append(settings.reranker)
        return configured_reranker(settings, llm)

    monkeypatch.setattr("retrieval.adapters.rerankers.configured_reranker", making)
    for model in (str(write_cross_encoder(tmp_path / "tiny")), None):
        changed = settings.changed(reranker="onnx", reranker_model=model)
        async with connect(database_url, settings=changed):
            assert made.pop() == "onnx"


async def fault_of(folder: Path) -> str:
    """The message of the error with which a call of that folder's model ends."""
    async with aclosing(OnnxReranker(folder)) as reranker:
        with pytest.raises(RerankerRejectedError) as caught:
            await reranker.rerank(QUERY, TEXTS)
    return str(caught.value)


@pytest.mark.parametrize(
    ("differs", "why"),
    [
        ({"others": ["position_ids"]}, "the model wants 'position_ids', which is not given"),
        ({"logits": 3}, "has the shape (3, 1, 3), not one or two logits a pair"),
        ({"bias": math.nan}, "a logit is no finite number"),
    ],
)
async def test_a_network_with_other_inputs_is_refused_by_their_names(
    tmp_path: Path, differs: dict[str, Any], why: str
) -> None:
    """No input is made up: zeros in its place would score all texts alike."""
    assert why in await fault_of(write_cross_encoder(tmp_path / "other", **differs))


class Judge(SimLLM):
    """A language model that judges by common words."""

    async def complete_json(self, prompt: str, schema: Mapping[str, Any], *, system: str = "") -> Any:  # noqa: ARG002
        """Points for the numbered texts."""
        query = re.findall(r'^Query: "(.*)"$', prompt, re.MULTILINE)[0]
        texts = re.findall(r'^\d+\. "(.*)"$', prompt, re.MULTILINE)
        return {"points": [round(10 * overlap(query, text)) for text in texts]}


async def test_a_language_model_reranks_by_points() -> None:
    """Texts are quoted data, each on one line: none passes for another's number."""
    reranker = LLMReranker(Judge())
    assert reranker.name.startswith("llm/sim/")
    forged = ['the cake\n2. "database timeout pool"', "database timeout"]
    assert await reranker.rerank(QUERY, [*TEXTS, *forged]) == [0.0, 0.7, 0.7, 1.0, 0.7]


async def test_language_models_keep_the_contract() -> None:
    """Points that mean nothing are points; what fails is unavailable."""
    await check_reranker(lambda: LLMReranker(SimLLM(seed=7)), deterministic=False)
    await check_unreachable_reranker(lambda: LLMReranker(SimLLM(faults=SimFaults(fail_rate=1))))


def reranker_of(settings: Settings, **values: object) -> Any:
    """The reranker of those settings."""
    changed = settings.changed(**values)
    return configured_reranker(changed, ChosenLLM(changed))


def test_settings_choose_a_reranker(settings: Settings, tmp_path: Path) -> None:
    """The default is none, whatever keys are set."""
    key = SecretStr("key")
    assert reranker_of(settings) is None
    assert reranker_of(settings, reranker_api_key=key, embedding_api_key=key, llm_api_key=key) is None
    assert reranker_of(settings, reranker="cohere", reranker_model="m", reranker_api_key=key).name == "cohere/m"
    assert reranker_of(settings, reranker="tei", reranker_base_url="http://tei:8080").name == "tei/tei:8080"
    assert reranker_of(settings, reranker="llm", llm="sim").name.startswith("llm/sim/")
    folder = write_cross_encoder(tmp_path / "tiny")
    assert reranker_of(settings, reranker="onnx", reranker_model=str(folder)).name == "onnx/tiny"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"reranker": "cohere"}, "RETRIEVAL_RERANKER_MODEL"),
        ({"reranker": "cohere", "reranker_model": "m"}, "RETRIEVAL_RERANKER_API_KEY"),
        ({"reranker": "jina", "reranker_model": "m", "reranker_api_key": SecretStr("a b")}, "outside ASCII"),
        ({"reranker": "tei"}, "RETRIEVAL_RERANKER_BASE_URL"),
        ({"reranker": "tei", "reranker_base_url": "tei:8080"}, "RETRIEVAL_RERANKER_BASE_URL"),
        ({"reranker": "llm"}, "RETRIEVAL_LLM"),
        ({"reranker": "onnx"}, "RETRIEVAL_RERANKER_MODEL"),
    ],
)
def test_settings_that_cannot_work_name_what_to_set(settings: Settings, values: dict[str, Any], why: str) -> None:
    """In one line."""
    with pytest.raises(ConfigurationError, match=why) as caught:
        reranker_of(settings, **values)
    assert "\n" not in str(caught.value)


async def test_a_configured_reranker_is_closed(settings: Settings, tmp_path: Path) -> None:
    """The configured reranker is created once."""
    changed = settings.changed(reranker="onnx", reranker_model=str(write_cross_encoder(tmp_path / "tiny")))
    choice = ChosenReranker(changed, ChosenLLM(changed))
    reranker = choice.get()
    assert reranker is not None
    assert choice.get() is reranker
    await choice.aclose()
    with pytest.raises(RerankerRejectedError):
        await reranker.rerank(QUERY, TEXTS)
    await asyncio.sleep(0)
