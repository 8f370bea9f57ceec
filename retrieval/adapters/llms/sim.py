"""A simulated language model, for tests, dry runs and examples."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import math
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retrieval.adapters.llms.json_shape import JSONShape, checked_prompt
from retrieval.domain.checks import is_number
from retrieval.domain.errors import ConfigurationError, LLMRejectedError, LLMUnavailableError
from retrieval.domain.search.signals import STOP_WORDS
from retrieval.domain.words import LETTERS, word_pattern

_TAGGED = re.compile(r"<query>(.*?)</query>", re.IGNORECASE | re.DOTALL)
_LABELLED = re.compile(r"\bquery\s*:\s*(\S.*)$", re.IGNORECASE | re.MULTILINE)
_QUOTED = re.compile(r"\"([^\"\n]+)\"")
_WORD = rf"{LETTERS}(?:[-'’.&]{LETTERS})*"
_POSSESSIVE = re.compile(r"['’]s?$")
_AT_A_PLACE = re.compile(r"^\s*who\b.*\bat\s+(?:the\s+)?(.+?)\W*$", re.IGNORECASE | re.DOTALL)

# A negation distinguishes facts.
_MORE_STOP_WORDS = "about all am any him know let me please some tell up us whom whose"
_STOPWORDS = STOP_WORDS - {"no", "not"} | set(_MORE_STOP_WORDS.split())

_SYNONYMS = (
    ("colleagues", "coworkers", "teammates"), ("colleague", "coworker", "teammate"), ("job", "work", "position"),
    ("company", "employer", "organisation"), ("meeting", "appointment", "call"), ("trip", "travel", "journey"),
    ("problem", "issue", "trouble"), ("error", "failure", "fault"), ("fix", "solution", "repair"),
    ("buy", "purchase", "order"), ("bought", "purchased", "ordered"), ("car", "vehicle", "automobile"),
    ("doctor", "physician", "specialist"), ("house", "home", "flat"), ("friend", "companion", "acquaintance"),
    ("friends", "companions", "acquaintances"), ("movie", "film", "show"), ("happened", "occurred", "took place"),
    ("start", "begin", "launch"), ("started", "began", "launched"),
)  # fmt: skip


def query_in(prompt: str) -> str:
    """The query that a prompt asks to rewrite, on one line; a JSON string is decoded.

    It is in ``<query>`` tags, else after the last ``query:``, else in the last double quotes, else on the last line.
    """
    for pattern in (_TAGGED, _LABELLED, _QUOTED):
        if matches := pattern.findall(prompt):
            return " ".join(_decode(matches[-1].strip()).split())
    return " ".join(prompt.strip().splitlines()[-1].split()) if prompt.strip() else ""


def content_words(text: str) -> list[str]:
    """The text's words except function words, each once, in order, without a final "'s"."""
    words = [_POSSESSIVE.sub("", word) for word in word_pattern(_WORD, text).findall(text)]
    return _each_once([word for word in words if word.casefold() not in _STOPWORDS])


def sim_rewrites(query: str, rng: random.Random) -> list[str]:
    """Two or three rewrites that differ from one another and from the query; none for a query without words."""
    words = content_words(query) or word_pattern(_WORD, query).findall(query)
    if not words:
        return []
    at_place = _AT_A_PLACE.match(query)
    if at_place and at_place[1][0].isupper() and (name := " ".join(content_words(at_place[1]))):
        return [name, f"works at {name}", f"{name} Corp employee"]
    core, first_rewording, second_rewording = " ".join(words), *_with_synonyms(words, rng)
    possible = [core, first_rewording, " ".join(_names(query)), second_rewording]
    spare = [f"{core} details", f"about {core}", f"{core} notes"]
    rng.shuffle(spare)
    own = " ".join(query.casefold().split())
    different = [rewrite for rewrite in _each_once([*possible, *spare]) if rewrite and rewrite.casefold() != own]
    return different[: rng.choice((2, 3))]


def _with_synonyms(words: list[str], rng: random.Random) -> list[str]:
    """The words in two wordings, with a different synonym in each for every word that has synonyms."""
    pairs = [rng.sample(synonyms, 2) if (synonyms := _synonyms(word)) else [word, word] for word in words]
    return [" ".join(wording) for wording in zip(*pairs, strict=True)]


def _synonyms(word: str) -> list[str]:
    own = word.casefold()
    return next(([synonym for synonym in row if synonym != own] for row in _SYNONYMS if own in row), [])


def _names(query: str) -> list[str]:
    return [word for word in content_words(query) if word[0].isupper() and not query.lstrip().startswith(word)]


def _each_once(texts: list[str]) -> list[str]:
    by_key: dict[str, str] = {}
    for text in texts:
        by_key.setdefault(text.casefold(), text)
    return list(by_key.values())


def _decode(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str) else text


def value_for(schema: Mapping[str, Any], rng: random.Random, words: Sequence[str], lists: Sequence[str] = ()) -> Any:
    """A value for the schema, by its types, bounds, lengths and choices; other keywords are ignored.

    Texts are made of ``words``; ``lists`` are the elements of lists of texts, as far as they fit.
    """
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if choices := schema.get("anyOf"):
        return value_for(choices[0], rng, words, lists)
    match _type(schema):
        case "object":
            return {name: value_for(part, rng, words, lists) for name, part in schema.get("properties", {}).items()}
        case "array":
            return _array(schema, rng, words, lists)
        case "string":
            text, least = " ".join(rng.sample(words, min(3, len(words)))) or "something", schema.get("minLength", 0)
            return text.ljust(least, "x")[: schema.get("maxLength")]
        case "integer" | "number" as kind:
            return _number(schema, rng, is_whole=kind == "integer")
        case "boolean":
            return rng.random() < 0.5
    return None


def _type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "string")
    return next((name for name in kind if name != "null"), "null") if isinstance(kind, list) else str(kind)


def _number(schema: Mapping[str, Any], rng: random.Random, *, is_whole: bool) -> float:
    """A number within the bounds; a missing bound is chosen near the other."""
    low = schema.get("minimum", min(0, schema.get("maximum", 1) - 1))
    high = schema.get("maximum", low + (10 if is_whole else 1))
    if is_whole:
        return rng.randint(math.ceil(low), max(math.ceil(low), math.floor(high)))
    return float(round(low + rng.random() * (high - low) * 0.99, 6))


def _array(schema: Mapping[str, Any], rng: random.Random, words: Sequence[str], lists: Sequence[str]) -> list[Any]:
    items = schema.get("items", {})
    takes_texts = _type(items) == "string" and not {"enum", "const", "anyOf"} & set(items)
    longest = items.get("maxLength", math.inf) if takes_texts else 0
    texts = [text for text in lists if len(text) <= longest]
    number = max(schema.get("minItems", 0), len(texts) or 2)
    more = [value_for(items, rng, words, lists) for _ in range(number - len(texts))]
    return [*texts, *more][: schema.get("maxItems")]


_SENTENCE = re.compile(r"(?<=[.!?…。！？])\s+|\n+")
_FACT_WORDS = 3
"""The content words that a sentence needs to be a fact."""


def _lines_in(prompt: str, tag: str) -> list[dict[str, Any]]:
    """The JSON objects, one a line, between a prompt's opening and closing tag."""
    _, _, after = prompt.partition(f"<{tag}>\n")
    try:
        values = [json.loads(line) for line in after.partition(f"\n</{tag}>")[0].splitlines()]
    except ValueError:
        return []
    return values if all(isinstance(value, dict) for value in values) else []


def sim_facts(prompt: str) -> dict[str, Any] | None:
    """Each sentence of a message, with its speaker, as a fact of that turn; None: the prompt has no messages.

    Questions and sentences of fewer than three content words are not facts.
    """
    turns = _lines_in(prompt, "messages")
    if not all({"turn", "speaker", "text"} <= turn.keys() for turn in turns) or not turns:
        return None
    facts = [
        {"text": f"{turn['speaker']}: {' '.join(sentence.split())}", "turns": [turn["turn"]]}
        for turn in turns
        for sentence in _SENTENCE.split(turn["text"])
        if len(content_words(sentence)) >= _FACT_WORDS and not sentence.rstrip().endswith(("?", "？"))
    ]
    return {"facts": facts}


def sim_decisions(prompt: str) -> dict[str, Any] | None:
    """The decision on each fact, compared with its memories; None: the prompt has no facts.

    A fact with the same words as a memory is the same; a fact that shares at least half of the words of both supersedes
    the memory.
    """
    facts = _lines_in(prompt, "facts")
    if not all({"fact", "text", "memories"} <= fact.keys() for fact in facts) or not facts:
        return None
    return {"decisions": [_sim_decision(fact) for fact in facts]}


def _sim_decision(fact: Mapping[str, Any]) -> dict[str, Any]:
    own = {word.casefold() for word in content_words(fact["text"])}
    new = {"fact": fact["fact"], "decision": "new", "memory": 0, "reason": ""}
    shares = {
        memory["memory"]: len(own & other) / len(own | other) if own | other else 0.0
        for memory in fact["memories"]
        for other in [{word.casefold() for word in content_words(memory["text"])}]
    }
    nearest = max(shares, key=lambda number: shares[number], default=0)
    if shares.get(nearest, 0.0) < 0.5:
        return new
    decision = "same" if shares[nearest] == 1 else "supersedes"
    return {**new, "decision": decision, "memory": nearest, "reason": "said later" if decision != "same" else ""}


_REWRITE = re.compile(r"rewrite.*query", re.IGNORECASE | re.DOTALL)
_VARIATION = re.compile(r"\bvariation (-?\d+)")
_PROMPT_CHARACTERS = 5000
"""The characters of a prompt that words are taken from."""
_WORDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SimFaults:
    """The faults to simulate, as shares of the calls from 0 to 1, together at most 1."""

    fail_rate: float = 0.0
    """Calls that raise ``LLMUnavailableError``."""
    malformed_rate: float = 0.0
    """Answers that are cut off: invalid JSON if JSON was requested."""
    delay_seconds: float = 0.0
    """The duration of every answer, failures included."""

    def __post_init__(self) -> None:
        rates = self.fail_rate, self.malformed_rate
        are_shares = all(is_number(rate, 0, 1) for rate in rates) and sum(rates) <= 1
        if not are_shares or not is_number(self.delay_seconds, 0):
            raise ConfigurationError(
                "the rates of faults are shares from 0 to 1, together at most 1, and delay_seconds is 0 or more"
            )


class SimLLM:
    """Answers by rule: the same seed and prompt give the same answer on every machine and in every process.

    - A prompt that contains ``rewrite`` and then ``query`` gets two or three rewrites of its query (``query_in``).
      Another variation number in ``system`` ("variation 3") gives other rewrites.
    - For JSON, messages between ``<messages>`` tags give facts (``sim_facts``), and facts between ``<facts>`` tags a
      decision each (``sim_decisions``).
    - Any other prompt gets a sentence of its words, and any other schema a value that fits it.

    ``calls`` counts the calls since it was made or reset.
    """

    def __init__(self, seed: int = 0, *, faults: SimFaults = SimFaults()) -> None:
        """The seed, the prompt and the number of its calls decide the faults."""
        self._seed = seed
        self._faults = faults
        self._closed = False
        self.reset()

    @property
    def name(self) -> str:
        """``sim/`` and the seed: another seed is another model."""
        return f"sim/{self._seed}"

    def reset(self) -> None:
        """Return to the initial state: the same prompts get the same faults again."""
        self.calls = 0
        self._calls_by_prompt: Counter[str] = Counter()

    async def complete(self, prompt: str, *, system: str = "") -> str:
        """Rewrites as a JSON list, or a sentence; a malformed answer is half of that.

        Raises ``LLMRejectedError`` for an empty prompt, ``LLMUnavailableError`` for a failed call.
        """
        is_malformed = await self._is_malformed(prompt, system)
        answer = self._answer(prompt, system)
        return answer[: len(answer) // 2] if is_malformed else answer

    async def complete_json(self, prompt: str, schema: Mapping[str, Any], *, system: str = "") -> Any:
        """A value that fits the schema; its lists of texts hold the rewrites that fit.

        Raises ``LLMRejectedError`` for an empty prompt, a schema that no simple rule can fill and a malformed answer;
        ``LLMUnavailableError`` for a failed call.
        """
        is_malformed = await self._is_malformed(prompt, system)
        shape = JSONShape(schema)
        if is_malformed:
            shape.read('{"simulated": [')
        if answer := sim_facts(prompt) or sim_decisions(prompt):
            with contextlib.suppress(LLMRejectedError):  # another schema is filled like any other
                return shape.checked(answer)
        words, lists = content_words(prompt[:_PROMPT_CHARACTERS])[:_WORDS], self._rewrites(prompt, system)
        return shape.checked(value_for(shape.schema, self._rng(prompt), words, lists))

    async def aclose(self) -> None:
        """Refuse further calls."""
        self._closed = True

    async def _is_malformed(self, prompt: str, system: str) -> bool:
        """Whether this call's answer is cut off. Raises the error of a failed call."""
        if self._closed:
            raise LLMRejectedError("the language model is closed; make a new one")
        checked_prompt(prompt)
        self.calls += 1
        digest = hashlib.sha256(f"{system}\n{prompt}".encode(errors="replace")).hexdigest()
        self._calls_by_prompt[digest] += 1
        chance = self._rng(f"faults {digest} {self._calls_by_prompt[digest]}").random()
        if self._faults.delay_seconds:
            await asyncio.sleep(self._faults.delay_seconds)
        if chance < self._faults.fail_rate:
            raise LLMUnavailableError("the simulated language model is down; try again later")
        return chance < self._faults.fail_rate + self._faults.malformed_rate

    def _answer(self, prompt: str, system: str) -> str:
        rewrites = self._rewrites(prompt, system)
        if rewrites:
            return json.dumps(rewrites, ensure_ascii=False)
        words = content_words(prompt[:_PROMPT_CHARACTERS])
        sample = words if len(words) <= _WORDS else self._rng(prompt).sample(words, _WORDS)
        return f"Simulated answer about: {', '.join(sample) or 'nothing in particular'}."

    def _rewrites(self, prompt: str, system: str) -> list[str]:
        if not _REWRITE.search(f"{system}\n{prompt}"):
            return []
        query = query_in(prompt)
        variation = _VARIATION.search(system)
        return sim_rewrites(query, self._rng(f"{query} {variation[1]}" if variation else query))

    def _rng(self, text: str) -> random.Random:
        return random.Random(f"{self._seed} {text}".encode(errors="replace"))  # noqa: S311 - it simulates
