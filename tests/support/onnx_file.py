"""A tiny cross-encoder as an ONNX file, written byte by byte: its logit is the number of common words minus two.

The format is protocol buffers (onnx.proto3 of the ONNX project); only the fields that are needed are written.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

_FLOAT, _INT64 = 1, 7


def _varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def _field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _node(kind: str, inputs: Sequence[str], output: str, *attributes: bytes) -> bytes:
    named = b"".join(_field(1, name) for name in inputs) + _field(2, output) + _field(4, kind)
    return _field(1, named + b"".join(_field(5, attribute) for attribute in attributes))


def _whole(name: str, value: int) -> bytes:
    return _field(1, name) + _field(3, value) + _field(20, 2)


def _tensor(name: str, kind: int, dims: Sequence[int], raw: bytes) -> bytes:
    shape = b"".join(_field(1, dim) for dim in dims)
    return _field(5, shape + _field(2, kind) + _field(8, name) + _field(9, raw))


def _value(number: int, name: str, kind: int, dims: Sequence[str]) -> bytes:
    shape = b"".join(_field(1, _field(2, dim)) for dim in dims)
    return _field(number, _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape))))


def write_cross_encoder(folder: Path, *, logits: int = 1, bias: float = 2.0, others: Sequence[str] = ()) -> Path:
    """Write ``model.onnx`` and ``tokenizer.json`` into the folder; of several logits, all but the last are 0.

    ``bias``: what is subtracted from the common words; ``others``: more inputs, of which the network makes nothing.
    """
    first, two = struct.pack("<q", 1), struct.pack("<q", 2)
    nodes = [
        _node("Unsqueeze", ["input_ids", "two"], "down"),
        _node("Unsqueeze", ["input_ids", "one"], "across"),
        _node("Equal", ["down", "across"], "same"),
        _node("Cast", ["same"], "pairs", _whole("to", _FLOAT)),
        _node("Cast", ["token_type_ids"], "types", _whole("to", _FLOAT)),
        _node("Cast", ["attention_mask"], "mask", _whole("to", _FLOAT)),
        _node("Mul", ["types", "mask"], "text"),
        _node("Sub", ["mask", "text"], "query"),
        _node("Unsqueeze", ["query", "two"], "query_column"),
        _node("MatMul", ["pairs", "query_column"], "matches"),
        _node("Unsqueeze", ["text", "one"], "text_row"),
        _node("MatMul", ["text_row", "matches"], "common"),
        _node("Sub", ["common", "bias"], "logit"),
    ]
    if logits > 1:
        nodes += [
            _node("Mul", ["logit", "nothing"], "zero"),
            _node("Concat", [*["zero"] * (logits - 1), "logit"], "logits", _whole("axis", 2)),
        ]
    tensors = [
        _tensor("one", _INT64, [1], first),
        _tensor("two", _INT64, [1], two),
        _tensor("bias", _FLOAT, [1], struct.pack("<f", bias)),
        _tensor("nothing", _FLOAT, [1], struct.pack("<f", 0.0)),
    ]
    names = ("input_ids", "attention_mask", "token_type_ids", *others)
    values = [_value(11, name, _INT64, ["pairs", "tokens"]) for name in names]
    values.append(_value(12, "logits" if logits > 1 else "logit", _FLOAT, ["pairs", "one", "out"]))
    graph = b"".join(nodes) + _field(2, "overlap") + b"".join(tensors) + b"".join(values)
    model = _field(1, 8) + _field(7, graph) + _field(8, _field(1, "") + _field(2, 13))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model)
    _tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def _tokenizer() -> Tokenizer:
    words = ["[UNK]", "[SEP]", "database", "timeout", "pool", "the", "log", "disk", "cake"]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106 - a token of text
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="$A", pair="$A:0 [SEP]:0 $B:1", special_tokens=[("[SEP]", 1)])
    return tokenizer
