"""API keys on the command line: creating, listing and revoking."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from retrieval.domain.api_key import key_id_of
from tests.acceptance.conftest import Program


def test_a_key_is_shown_once_listed_without_its_secret_and_revoked(program: Program) -> None:
    """Standard output is the key alone, for a variable; the list, also of a revoked one, never holds it."""
    process = program(
        "keys", "create", "web", "--scope", "read", "--scope", "feedback", "--expires", "90d", "--feedback-cap", "20"
    )
    text = process.stdout.rstrip("\n")
    key_id = key_id_of(text)
    assert key_id
    assert process.stderr == f"keep it: it is not shown again; revoke it with: retrieval keys revoke {key_id}\n"

    (listed,) = program.json("keys", "list")
    assert text not in str(listed)
    assert (listed["key_id"], listed["name"], listed["scopes"]) == (key_id, "web", ["read", "feedback"])
    assert listed["feedback_cap"] == 20
    assert (listed["state"], listed["revoked_at"], listed["last_used_at"]) == ("active", None, None)
    days = datetime.fromisoformat(listed["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=89) < days <= timedelta(days=90)

    assert program.succeeds("keys", "revoke", key_id) == f"key {key_id} (web) is revoked\n"
    assert re.search(rf"{key_id} +web +read, feedback +– +20 +revoked", program.succeeds("keys", "list"))
    another = program.using(RETRIEVAL_TENANT="another").fails("keys", "revoke", text)
    assert another == f"error: there is no API key {key_id}; list the keys, which shows their ids"


def test_a_key_that_sends_no_feedback_has_no_cap_of_it(program: Program) -> None:
    """The answer to its making, the list and the table agree."""
    made = program.json("keys", "create", "reader")
    assert made["key"].startswith(f"rtv_{made['key_id']}_")
    (listed,) = [key for key in program.json("keys", "list") if key["name"] == "reader"]
    assert (made["feedback_cap"], listed["feedback_cap"]) == (None, None)
    assert re.search(r"reader +read +– +– +active", program.succeeds("keys", "list"))
    assert program.json("keys", "create", "all", "--scope", "admin")["feedback_cap"] == 1000
    refused = program.fails("keys", "create", "x", "--scope", "reed", code=2)
    assert refused.startswith("error: Invalid value for '--scope': 'reed' is not one of 'read', 'write', ")
