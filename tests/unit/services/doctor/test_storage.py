"""The doctor on tables, indexes, logins, roles and row-level security."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from retrieval.adapters.store.installation.examination import Installation
from retrieval.domain.diagnosis import Severity
from retrieval.services.doctor.diagnose import server_findings
from retrieval.services.doctor.server import check_login, check_roles
from retrieval.services.doctor.storage import check_indexes, check_isolation, check_tables
from retrieval.settings import Settings
from tests.support.facts import FACTS, NAMES, NOW, hnsw, index, server, table

OWNERS = {"embeddings_4_7_hnsw": "tickets"}


@pytest.mark.parametrize(
    ("broken", "mend"),
    [
        (hnsw(is_valid=False), "retrieval jobs run indexes --collection tickets"),
        (index(is_valid=False), 'REINDEX INDEX CONCURRENTLY "retrieval"."items_pkey";'),
        (index(name="items_pkey_ccnew", is_valid=False), 'DROP INDEX CONCURRENTLY "retrieval"."items_pkey_ccnew";'),
        (index(name="items_pkey_ccold2", is_valid=False), 'DROP INDEX CONCURRENTLY "retrieval"."items_pkey_ccold2";'),
        (hnsw(name="embeddings_4_7_hnsw_ccnew1", is_valid=False), "retrieval jobs run indexes --collection tickets"),
    ],
)
def test_an_invalid_index_is_an_error(broken: Any, mend: str) -> None:
    """A collection's own, any other, and what an interrupted rebuild left."""
    (finding,) = check_indexes([index(name="good"), broken], "retrieval", OWNERS)
    assert (finding.severity, finding.about, finding.mend) == (Severity.ERROR, broken.name, mend)


def test_an_index_under_construction_is_not_a_fault() -> None:
    """It is invalid until it is done."""
    assert list(check_indexes([hnsw(is_valid=False, is_being_built=True)], "retrieval", OWNERS)) == []


@pytest.mark.parametrize(
    ("changes", "check", "severity"),
    [
        ({"is_vacuumed": False}, "tables", Severity.WARNING),
        ({"dead": 51_000}, "bloat", Severity.WARNING),
        ({"changed": 26_000}, "statistics", Severity.ADVICE),
        ({"is_analyzed": False}, "statistics", Severity.ADVICE),
    ],
)
def test_a_neglected_table_is_reported(changes: dict[str, Any], check: str, severity: Severity) -> None:
    """Not cleaned, not counted."""
    (finding,) = check_tables([table(**changes)], "retrieval")
    assert (finding.check, finding.severity, finding.about) == (check, severity, "items")
    assert '"retrieval"."items"' in finding.mend


@pytest.mark.parametrize(
    "changes",
    [{}, {"dead": 49_000}, {"changed": 24_000}, {"live": 100, "changed": 90, "dead": 9_000, "is_analyzed": False}],
)
def test_a_table_that_the_server_looks_after_is_left_alone(changes: dict[str, Any]) -> None:
    """Below half dead, below a quarter changed, or small."""
    assert list(check_tables([table(**changes)], "retrieval")) == []


@pytest.mark.parametrize(
    ("changes", "severity", "mend"),
    [
        ({"may_act": False}, Severity.ERROR, 'GRANT "retrieval_app" TO "shop" WITH SET TRUE;'),
        ({"is_superuser": True}, Severity.WARNING, "CREATE ROLE shop LOGIN"),
        ({"may_define": False}, Severity.ADVICE, 'GRANT "retrieval_definer" TO "shop" WITH INHERIT TRUE;'),
    ],
)
def test_a_login_with_too_few_or_too_many_rights_is_reported(
    changes: dict[str, Any], severity: Severity, mend: str
) -> None:
    """With the grant that is missing."""
    facts = replace(FACTS, may_act=changes.pop("may_act", True))
    (finding,) = check_login(facts, server(**changes), NAMES, is_embedded=False)
    assert (finding.severity, mend in finding.mend) == (severity, True)


def test_a_limit_of_time_that_cannot_be_lifted_is_reported_where_indexes_are_built() -> None:
    """Behind a pooler, for a login that builds them; a direct connection lifts it."""
    limited = replace(FACTS, statement_seconds=30.0)
    (finding,) = check_login(limited, server(), NAMES, is_embedded=False, is_pooled=True)
    assert (finding.check, finding.severity) == ("login", Severity.ADVICE)
    assert finding.mend.startswith('ALTER ROLE "shop" SET statement_timeout = 0;')
    for facts, may_define, is_pooled in ((limited, True, False), (FACTS, True, True), (limited, False, True)):
        state = server(may_define=may_define)
        found = list(check_login(facts, state, NAMES, is_embedded=False, is_pooled=is_pooled))
        assert not any("statement_timeout" in each.found for each in found)


def test_the_embedded_servers_own_login_may_be_a_superuser() -> None:
    """It is the only login there, and only its user can connect."""
    assert list(check_login(FACTS, server(is_superuser=True), NAMES, is_embedded=True)) == []


def test_a_role_that_may_log_in_is_an_error() -> None:
    """Row-level security would not protect from such a role."""
    (finding,) = check_roles(server(unsafe_roles=("retrieval_app",)))
    assert finding.severity is Severity.ERROR
    assert finding.mend == 'ALTER ROLE "retrieval_app" NOLOGIN NOSUPERUSER NOBYPASSRLS;'


@pytest.mark.parametrize(
    ("is_distributed", "expected"), [(False, "can neither log in nor"), (True, "nodes log in to each other")]
)
def test_roles_that_may_log_in_on_a_cluster_are_named_as_such(*, is_distributed: bool, expected: str) -> None:
    """There the nodes log in to each other as the acting role."""
    installation = Installation(
        facts=replace(FACTS, is_distributed=is_distributed),
        server=server(),
        asked_at=NOW,
        read_at=NOW,
        status=None,
        settings={},
        tables=(),
        indexes=(),
        queue=None,
    )
    (roles,) = [finding for finding in server_findings(installation, Settings()) if finding.check == "roles"]
    assert roles.severity is Severity.OK
    assert expected in roles.found


def test_a_table_of_tenants_without_forced_security_is_an_error() -> None:
    """Tables without a tenant need none."""
    (finding,) = check_isolation([table(is_forced=False), table(columns=("name",), is_forced=False)], NAMES)
    assert (finding.severity, finding.about) == (Severity.ERROR, "items")
    assert 'ALTER TABLE "retrieval"."items" FORCE ROW LEVEL SECURITY;' in finding.mend


def test_a_table_that_the_application_may_not_read_is_an_error() -> None:
    """Although a policy shows it rows."""
    (finding,) = check_isolation([table(lacking=("SELECT",))], NAMES)
    assert finding.check == "privileges"
    assert finding.mend.startswith("GRANT SELECT")


def test_a_policy_that_shows_other_tenants_rows_is_an_error() -> None:
    """It goes."""
    (finding,) = check_isolation([table(loose_policies=("oops",))], NAMES)
    assert (finding.severity, finding.check) == (Severity.ERROR, "isolation")
    assert finding.mend == 'DROP POLICY "oops" ON "retrieval"."items";'


def test_a_table_of_which_no_policy_shows_anything_is_an_error() -> None:
    """It seems empty until the policy is there again."""
    (finding,) = check_isolation([table(is_shown=False)], NAMES)
    assert (finding.severity, finding.check) == (Severity.ERROR, "isolation")
    assert finding.mend.startswith('CREATE POLICY "items_app" ON "retrieval"."items" TO "retrieval_app" USING (collect')


def test_rights_to_write_are_owed_where_they_are_given() -> None:
    """Only a function writes tenants."""
    (finding,) = check_isolation([table(lacking=("INSERT",)), table(name="tenants", lacking=("INSERT",))], NAMES)
    assert (finding.check, finding.found) == ("privileges", "role 'retrieval_app' may not INSERT on table 'items'")
    assert finding.mend == 'GRANT INSERT ON "retrieval"."items" TO "retrieval_app";'
