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
from dataclasses import dataclass, replace
from typing import Any

from retrieval.adapters.endpoints.retries import Sleep
from retrieval.adapters.llms.json_shape import JSONShape, checked_prompt
from retrieval.domain.checks import is_number
from retrieval.domain.errors import ConfigurationError, LLMRejectedError, LLMUnavailableError

_TAGGED = re.compile(r"<query>(.*?)</query>", re.IGNORECASE | re.DOTALL)
_LABELLED = re.compile(r"\bquery\s*:\s*(\S.*)$", re.IGNORECASE | re.MULTILINE)
_QUOTED = re.compile(r"\"([^\"\n]+)\"")
_WORD = re.compile(r"[^\W_]+(?:[-'’.&][^\W_]+)*")
_POSSESSIVE = re.compile(r"['’]s?$")
_AT_A_PLACE = re.compile(r"^\s*who\b.*\bat\s+(?:the\s+)?(.+?)\W*$", re.IGNORECASE | re.DOTALL)

_FUNCTION_WORDS = """
    a about all am an and any are as at be been but by can could did do does for from had has have he her him his how
    i if in into is it its know let me my of on or our please she should so some tell than that the their them there
    these they this those to up us was we were what when where which who whom whose why will with would you your
"""
_STOPWORDS = frozenset(_FUNCTION_WORDS.split())

_SYNONYMS = (
    ("colleagues", "coworkers", "teammates"),
    ("colleague", "coworker", "teammate"),
    ("job", "work", "position"),
    ("company", "employer", "organisation"),
    ("meeting", "appointment", "call"),
    ("trip", "travel", "journey"),
    ("holiday", "vacation", "trip"),
    ("problem", "issue", "trouble"),
    ("error", "failure", "fault"),
    ("fix", "solution", "repair"),
    ("buy", "purchase", "order"),
    ("bought", "purchased", "ordered"),
    ("car", "vehicle", "automobile"),
    ("doctor", "physician", "specialist"),
    ("house", "home", "flat"),
    ("friend", "companion", "acquaintance"),
    ("friends", "companions", "acquaintances"),
    ("children", "kids", "family"),
    ("movie", "film", "show"),
    ("food", "meal", "dish"),
    ("happened", "occurred", "took place"),
    ("start", "begin", "launch"),
    ("started", "began", "launched"),
    ("similar", "like", "related"),
    ("plan", "schedule", "intention"),
    ("plans", "schedule", "intentions"),
    ("like", "enjoy", "prefer"),
    ("money", "budget", "cost"),
    ("illness", "disease", "condition"),
)


def query_in(prompt: str) -> str:
    """The query that a prompt asks to rewrite, on one line; a JSON string is decoded."""
    for pattern in (_TAGGED, _LABELLED, _QUOTED):
        if matches := pattern.findall(prompt):
            return " ".join(_decode(matches[-1].strip()).split())
    return " ".join(prompt.strip().splitlines()[-1].split()) if prompt.strip() else ""


def content_words(text: str) -> list[str]:
    """The text's words except function words, each once, in order, without a final "'s"."""
    words = [_POSSESSIVE.sub("", word) for word in _WORD.findall(text)]
    return _each_once([word for word in words if word.casefold() not in _STOPWORDS])


def sim_rewrites(query: str, rng: random.Random) -> list[str]:
    """Two or three rewrites that differ from one another and from the query; none for a query without words."""
    words = content_words(query) or _WORD.findall(query)
    if not words:
        return []
    place = _AT_A_PLACE.match(query)
    if place and place[1][0].isupper() and (name := " ".join(content_words(place[1]))):
        return [name, f"works at {name}", f"{name} Corp employee"]
    core, first_rewording, second_rewording = " ".join(words), *_with_synonyms(words, rng)
    possible = [core, first_rewording, " ".join(_names(query)), second_rewording]
    spare = [f"{core} details", f"about {core}", f"{core} notes"]
    rng.shuffle(spare)
    return _different(query, [*possible, *spare])[: rng.choice((2, 3))]


def _with_synonyms(words: list[str], rng: random.Random) -> list[str]:
    """The words in two wordings, with a different synonym in each for every word that has synonyms."""
    pairs = [rng.sample(synonyms, 2) if (synonyms := _synonyms(word)) else [word, word] for word in words]
    return [" ".join(wording) for wording in zip(*pairs, strict=True)]


def _synonyms(word: str) -> list[str]:
    own = word.casefold()
    return next(([synonym for synonym in row if synonym != own] for row in _SYNONYMS if own in row), [])


def _names(query: str) -> list[str]:
    """The capitalised words, except the first word of the query."""
    return [word for word in content_words(query) if word[0].isupper() and not query.lstrip().startswith(word)]


def _different(query: str, rewrites: list[str]) -> list[str]:
    """The rewrites that differ from the query and from one another, in order."""
    own = " ".join(query.casefold().split())
    return [rewrite for rewrite in _each_once(rewrites) if rewrite and rewrite.casefold() != own]


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


_DEEPEST = 8
_FORMATS = {
    "date-time": "2024-05-17T09:30:00+00:00",
    "date": "2024-05-17",
    "time": "09:30:00+00:00",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """The input that values are made from."""

    rng: random.Random
    words: Sequence[str]
    """The words of texts; if empty, texts are ``something``."""
    lists: Sequence[str] = ()
    """The elements of lists of texts; if empty, the elements are made of ``words``."""
    least: bool = False
    """Whether every value is the smallest that fits."""
    root: Any = None
    depth: int = 0


def value_for(schema: Any, filling: Filling) -> Any:
    """A value for the schema. Keywords without a simple rule (``pattern``, ``not`` and the like) are ignored."""
    if not isinstance(schema, dict):
        return None
    if filling.root is None:
        filling = replace(filling, root=schema)
    filling = replace(filling, depth=filling.depth + 1)
    schema = _resolve(schema, filling)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return filling.rng.choice(schema["enum"])
    return _MAKERS.get(_type(schema), _null)(schema, filling)


def _resolve(schema: dict[str, Any], filling: Filling) -> dict[str, Any]:
    """The schema with references and alternatives resolved: the first alternative, or the last in a deep schema."""
    for _ in range(_DEEPEST):
        if "$ref" in schema:
            schema = {**_lookup(schema["$ref"], filling.root), **_without(schema, "$ref")}
        elif choices := schema.get("anyOf") or schema.get("oneOf"):
            choice = choices[-1 if filling.depth > _DEEPEST else 0]
            schema = {**_without(schema, "anyOf", "oneOf"), **(choice if isinstance(choice, dict) else {})}
        elif parts := schema.get("allOf"):
            schema = _together([_without(schema, "allOf"), *(part for part in parts if isinstance(part, dict))])
        else:
            break
    return schema


def _lookup(reference: str, root: Any) -> dict[str, Any]:
    target = root
    for name in reference.removeprefix("#").strip("/").split("/"):
        if name:
            target = target.get(name.replace("~1", "/").replace("~0", "~"), {}) if isinstance(target, dict) else {}
    return target if isinstance(target, dict) else {}


def _together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One schema for schemas that must all hold, with the properties of all of them."""
    merged: dict[str, Any] = {}
    for part in parts:
        properties = {**merged.get("properties", {}), **part.get("properties", {})}
        required = [*merged.get("required", []), *part.get("required", [])]
        merged |= part
        if properties:
            merged |= {"properties": properties, "required": required}
    return merged


def _without(schema: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name not in names}


def _type(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    if kind is not None:
        return str(kind)
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema or "prefixItems" in schema else "string"


def _object(schema: dict[str, Any], filling: Filling) -> dict[str, Any]:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    names = [*properties, *(name for name in required if name not in properties)]
    if filling.least or filling.depth > _DEEPEST:
        names = [name for name in names if name in required]
    return {name: value_for(properties.get(name, {"type": "string"}), filling) for name in names}


def _array(schema: dict[str, Any], filling: Filling) -> list[Any]:
    first, items = schema.get("prefixItems", []), schema.get("items", {"type": "string"})
    least = max(schema.get("minItems", 0), len(first))
    if items is False:
        return [value_for(part, filling) for part in first]
    texts = _texts_for(items, filling)
    number = least if filling.least or filling.depth > _DEEPEST else max(least, len(texts) or 2)
    number = min(number, schema.get("maxItems", number))
    head = [value_for(part, filling) for part in first[:number]]
    tail = [texts.pop(0) if texts else value_for(items, filling) for _ in range(number - len(head))]
    return [*head, *tail]


def _texts_for(items: Any, filling: Filling) -> list[str]:
    """The texts of ``lists`` that fit, if the items are texts."""
    is_text = isinstance(items, dict) and _type(items) == "string" and not {"enum", "const", "format"} & set(items)
    longest = items.get("maxLength", math.inf) if is_text else 0
    return [text for text in filling.lists if len(text) <= longest] if is_text else []


def _string(schema: dict[str, Any], filling: Filling) -> str:
    if "format" in schema and schema["format"] in _FORMATS:
        return _FORMATS[schema["format"]]
    least = schema.get("minLength", 0)
    words = list(filling.words) or ["something"]
    text = "" if filling.least else " ".join(filling.rng.sample(words, min(3, len(words))))
    return text.ljust(least, "x")[: schema.get("maxLength", max(len(text), least))]


def _number(schema: dict[str, Any], filling: Filling) -> float:
    low, high = _bounds(schema)
    return low if filling.least else round(low + filling.rng.random() * (high - low) * 0.99, 6)


def _integer(schema: dict[str, Any], filling: Filling) -> int:
    step = schema.get("multipleOf", 1)
    low, high = _bounds(schema)
    first = math.ceil(low / step) + (schema.get("exclusiveMinimum") == math.ceil(low / step) * step)
    last = math.floor(high / step) - (schema.get("exclusiveMaximum") == math.floor(high / step) * step)
    return int(step * (first if filling.least or last <= first else filling.rng.randint(first, last)))


def _bounds(schema: dict[str, Any]) -> tuple[float, float]:
    """The lowest and the highest number; a missing bound is chosen near the other."""
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None:
        low = min(0, high - 1) if high is not None else 0
    if high is None:
        high = max(low + 1, 10 if schema.get("type") == "integer" else 1)
    if "exclusiveMinimum" in schema:
        low += (high - low) * 0.01 if schema.get("type") == "number" else 0
    return low, high


def _boolean(_: dict[str, Any], filling: Filling) -> bool:
    return not filling.least and filling.rng.random() < 0.5


def _null(_: dict[str, Any], __: Filling) -> None:
    return None


_MAKERS = {
    "object": _object,
    "array": _array,
    "string": _string,
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
    "null": _null,
}


_SENTENCE = re.compile(r"(?<=[.!?…。！？])\s+|\n+")
_FACT_WORDS = 3
"""The content words that a sentence needs to be a fact."""


def _lines_in(prompt: str, tag: str) -> list[dict[str, Any]]:
    """The JSON objects, one a line, between a prompt's opening and closing tag."""
    _, _, after = prompt.partition(f"<{tag}>\n")
    lines = after.partition(f"\n</{tag}>")[0].splitlines()
    try:
        values = [json.loads(line) for line in lines]
    except ValueError:
        return []
    return [value for value in values if isinstance(value, dict)]


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
"""The words of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimFaults:
    """The faults to simulate, as shares of the calls from 0 to 1, together at most 1."""

    fail_rate: float = 0.0
    """Calls that raise ``LLMUnavailableError``."""
    malformed_rate: float = 0.0
    """Answers that are cut off: invalid JSON if JSON was requested."""
    empty_rate: float = 0.0
    """Answers that are empty, or the smallest value that fits the schema."""
    delay_seconds: float = 0.0
    """The duration of every answer, failures included."""

    def __post_init__(self) -> None:
        rates = (self.fail_rate, self.malformed_rate, self.empty_rate)
        if not all(is_number(number) for number in (*rates, self.delay_seconds)):
            raise ConfigurationError("the rates of faults and delay_seconds are numbers")
        if not all(0 <= rate <= 1 for rate in rates) or sum(rates) > 1 + 1e-9:
            raise ConfigurationError("the rates of faults are shares from 0 to 1, together at most 1")
        if not 0 <= self.delay_seconds < float("inf"):
            raise ConfigurationError(f"delay_seconds is {self.delay_seconds}; it is 0 or more")

    def fault_at(self, chance: float) -> str:
        """``fail``, ``malformed``, ``empty`` or an empty text, for a random number in [0, 1)."""
        for fault, rate in (("fail", self.fail_rate), ("malformed", self.malformed_rate), ("empty", self.empty_rate)):
            if chance < rate:
                return fault
            chance -= rate
        return ""


NO_FAULTS = SimFaults()


class SimLLM:
    """Answers by rule: the same seed and prompt give the same answer on every machine and in every process.

    - A prompt that contains ``rewrite`` and then ``query`` gets two or three rewrites of its query: the text in
      ``<query>`` tags, else after the last ``query:``, else in the last double quotes, else the last line. A variation
      that ``system`` names ("variation 3") gives other rewrites.
    - For JSON, messages between ``<messages>`` tags give each sentence as a fact (``sim_facts``), and facts between
      ``<facts>`` tags give a decision each (``sim_decisions``).
    - Any other prompt gets a sentence of its words, and any other schema a value that fits it.

    ``calls`` counts the calls since it was made or reset.
    """

    def __init__(self, seed: int = 0, *, faults: SimFaults = NO_FAULTS, sleep: Sleep = asyncio.sleep) -> None:
        """The seed, the prompt and the number of its calls decide the faults; ``sleep`` waits for a delay."""
        if not isinstance(faults, SimFaults):
            raise ConfigurationError(f"faults is {faults!r:.80}; give SimFaults(...), or leave it out")
        self._seed = seed
        self._faults = faults
        self._sleep = sleep
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

        Raises ``LLMRejectedError`` for an empty prompt and an empty answer, ``LLMUnavailableError`` for a failed call.
        """
        fault = await self._fault(prompt, system)
        if fault == "empty":
            raise LLMRejectedError("the simulated language model gave an empty answer; ask again")
        answer = self._answer(prompt, system)
        return answer[: len(answer) // 2] if fault == "malformed" else answer

    async def complete_json(self, prompt: str, schema: Mapping[str, Any], *, system: str = "") -> Any:
        """A value that fits the schema; its lists of texts hold the rewrites that fit.

        Raises ``LLMRejectedError`` for an empty prompt, a schema that no simple rule can fill and a malformed answer;
        ``LLMUnavailableError`` for a failed call.
        """
        fault = await self._fault(prompt, system)
        shape = JSONShape(schema)
        if fault == "malformed":
            shape.read('{"simulated": [')
        if not fault and (answer := sim_facts(prompt) or sim_decisions(prompt)) is not None:
            with contextlib.suppress(LLMRejectedError):  # another schema is filled like any other
                return shape.checked(answer)
        rewrites = self._rewrites(prompt, system)
        filling = Filling(
            rng=self._rng(prompt),
            words=content_words(prompt[:_PROMPT_CHARACTERS])[:_WORDS],
            lists=rewrites,
            least=fault == "empty",
        )
        return shape.checked(value_for(shape.schema, filling))

    async def aclose(self) -> None:
        """Refuse further calls."""
        self._closed = True

    async def _fault(self, prompt: str, system: str) -> str:
        """The fault of this call, if any. Raises the error of a failed call."""
        if self._closed:
            raise LLMRejectedError("the language model is closed; make a new one")
        checked_prompt(prompt)
        self.calls += 1
        digest = hashlib.sha256(f"{system}\n{prompt}".encode(errors="replace")).hexdigest()
        self._calls_by_prompt[digest] += 1
        fault = self._faults.fault_at(self._rng(f"faults {digest} {self._calls_by_prompt[digest]}").random())
        if self._faults.delay_seconds:
            await self._sleep(self._faults.delay_seconds)
        if fault == "fail":
            raise LLMUnavailableError("the simulated language model is down; try again later")
        return fault

    def _answer(self, prompt: str, system: str) -> str:
        rewrites = self._rewrites(prompt, system)
        if rewrites:
            return json.dumps(rewrites, ensure_ascii=False)
        words = content_words(prompt[:_PROMPT_CHARACTERS])
        sample = words if len(words) <= _WORDS else self._rng(prompt).sample(words, _WORDS)
        return f"Simulated answer about: {', '.join(sample) or 'nothing in particular'}."

    def _rewrites(self, prompt: str, system: str) -> list[str]:
        """The rewrites that the prompt asks for; empty if it asks for something else."""
        if not _REWRITE.search(f"{system}\n{prompt}"):
            return []
        query = query_in(prompt)
        variation = _VARIATION.search(system)
        return sim_rewrites(query, self._rng(f"{query} {variation[1]}" if variation else query))

    def _rng(self, text: str) -> random.Random:
        """A random source that depends only on the seed and the text."""
        return random.Random(f"{self._seed} {text}".encode(errors="replace"))  # noqa: S311 - it simulates
