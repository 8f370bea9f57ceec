"""What the doctor says of logins, roles and row-level security."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.domain.diagnosis import Severity
from retrieval.services.doctor.storage import check_isolation, check_login, check_roles
from tests.support.facts import NAMES, server, table


@pytest.mark.parametrize(
    ("changes", "severity", "mend"),
    [
        ({"may_act": False}, Severity.ERROR, 'GRANT "retrieval_app" TO "shop";'),
        ({"is_superuser": True}, Severity.WARNING, "CREATE ROLE shop LOGIN"),
        ({"may_define": False}, Severity.ADVICE, 'GRANT "retrieval_definer" TO "shop";'),
    ],
)
def test_a_login_that_may_too_little_or_too_much_is_told(
    changes: dict[str, Any], severity: Severity, mend: str
) -> None:
    """With the grant that is missing."""
    (finding,) = check_login(server(**changes), NAMES, is_embedded=False)
    assert (finding.severity, mend in finding.mend) == (severity, True)


def test_the_embedded_servers_own_login_may_be_a_superuser() -> None:
    """It is the only one there, and nobody else can enter."""
    assert list(check_login(server(is_superuser=True), NAMES, is_embedded=True)) == []


def test_a_role_that_may_log_in_is_an_error() -> None:
    """Row-level security would not hold for it."""
    (finding,) = check_roles(server(unsafe_roles=("retrieval_app",)))
    assert finding.severity is Severity.ERROR
    assert finding.mend == 'ALTER ROLE "retrieval_app" NOLOGIN NOSUPERUSER NOBYPASSRLS;'


def test_a_table_of_tenants_without_forced_security_is_an_error() -> None:
    """What no tenant owns needs none."""
    (finding,) = check_isolation([table(is_forced=False), table(is_private=False, is_forced=False)], NAMES)
    assert (finding.severity, finding.about) == (Severity.ERROR, "items")
    assert 'ALTER TABLE "retrieval"."items" FORCE ROW LEVEL SECURITY;' in finding.mend


def test_a_table_that_the_application_may_not_read_is_an_error() -> None:
    """Although a policy shows it rows."""
    (finding,) = check_isolation([table(is_granted=False)], NAMES)
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
    """Nobody writes tenants but a function."""
    (finding,) = check_isolation([table(lacking=("INSERT",)), table(name="tenants", lacking=("INSERT",))], NAMES)
    assert (finding.check, finding.found) == ("privileges", "role 'retrieval_app' may not INSERT on table 'items'")
    assert finding.mend == 'GRANT INSERT ON "retrieval"."items" TO "retrieval_app";'
