"""What errors advise, in the words of HTTP: they are the platform's, which speaks to Python and to the command line."""

from __future__ import annotations

import re

_REPLACED = (
    (re.compile(r"; make it with: retrieval ingest .*$"), "; make it with: PUT /v1/collections/{name}"),
    (re.compile(r"; see: retrieval profiles list .*$"), "; see: GET /v1/collections/{name}/profiles"),
    (
        re.compile(r"to change it: retrieval collections filterable .*$"),
        "whoever runs the service can change it, with: retrieval collections filterable",
    ),
    (re.compile(r"; take it out, as clean_text and retrieval ingest do"), "; take it out"),
    (re.compile(r"\breward=, a number"), "reward, a number"),
    (re.compile(r"\bhelpful=True or False\b"), "helpful, true or false"),
    (re.compile(r"\breward= or helpful=, not both"), "reward or helpful, not both"),
)


def over_http(detail: str) -> str:
    """The same with requests in place of commands and of arguments of Python."""
    for command, request in _REPLACED:
        detail = command.sub(request, detail)
    return detail
