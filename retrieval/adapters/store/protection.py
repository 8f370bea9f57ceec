"""What makes a table of collections' rows private to their tenant."""

from __future__ import annotations

from retrieval.adapters.store.installed_sql import Names, quote_identifier


def protection(table: str, names: Names) -> list[str]:
    """The statements that force row-level security on a table with a ``collection_id``, and say who may do what.

    The application role sees what belongs to its tenant's collections; the definer role reads all, inside its
    functions only.
    """
    name, app, definer = map(quote_identifier, (table, names.app_role, names.definer_role))
    own = "collection_id IN (SELECT c.collection_id FROM collections c)"
    return [
        f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY",
        f"ALTER TABLE {name} FORCE ROW LEVEL SECURITY",
        f"CREATE POLICY {quote_identifier(table + '_app')} ON {name} TO {app} USING ({own}) WITH CHECK ({own})",
        f"CREATE POLICY {quote_identifier(table + '_definer')} ON {name} FOR SELECT TO {definer} USING (true)",
        f"REVOKE ALL ON {name} FROM PUBLIC",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {name} TO {app}",
        f"GRANT SELECT ON {name} TO {definer}",
    ]
