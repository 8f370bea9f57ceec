"""The text of a function on a cluster, where every parameter that selects a node has to be a value."""

from __future__ import annotations

from retrieval.adapters.store.installation.cluster import for_cluster

WRITES = """CREATE OR REPLACE FUNCTION retrieval.remove(collection bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'retrieval', 'public'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
BEGIN
    DELETE FROM items AS item WHERE item.collection_id + 0 = collection;
END
$function$
"""


def test_no_plan_is_for_all_collections_and_nothing_hides_the_collection_of_a_row() -> None:
    """A generic plan and an expression around the key would both query every node."""
    statement = for_cluster(WRITES, is_query=False, is_set=False)
    assert statement == WRITES.replace("\n SET plan_cache_mode TO 'force_generic_plan'", "").replace(
        "_id + 0 =", "_id ="
    )


def test_a_table_that_is_made_later_gets_a_policy_without_a_subquery() -> None:
    """No distributed table can have a policy with one."""
    ddl = "EXECUTE 'CREATE POLICY app ON x USING (collection_id IN (SELECT c.collection_id FROM collections c))'"
    statement = for_cluster(ddl, is_query=False, is_set=False)
    assert statement == "EXECUTE 'CREATE POLICY app ON x USING (collection_id = ANY (own_collections()))'"


def test_a_query_becomes_a_procedure_that_gives_its_rows() -> None:
    """A function that is a query has its parameters unnamed values when it is planned."""
    text = """CREATE OR REPLACE FUNCTION retrieval.known(collection bigint)
 RETURNS TABLE(name text)
 LANGUAGE sql
 STABLE
AS $function$
    SELECT a.name FROM attributes AS a WHERE a.collection_id = collection;
$function$
"""
    assert for_cluster(text, is_query=True, is_set=True).splitlines()[2:] == [
        " LANGUAGE plpgsql",
        " STABLE",
        "AS $cluster$",
        "#variable_conflict use_column",
        " BEGIN RETURN QUERY SELECT a.name FROM attributes AS a WHERE a.collection_id = collection; END $cluster$",
    ]


def test_an_expression_becomes_a_procedure_that_gives_its_value() -> None:
    """The same for one value, of a body in the standard's words."""
    text = """CREATE OR REPLACE FUNCTION retrieval.spaces(collection bigint)
 RETURNS bigint[]
 LANGUAGE sql
 STABLE
RETURN ( SELECT array_agg(s.space_id) FROM spaces s)
"""
    statement = for_cluster(text, is_query=True, is_set=False)
    assert "DECLARE answer bigint[]; BEGIN FOR answer IN SELECT ( SELECT array_agg" in statement
    assert statement.endswith("FROM spaces s) LOOP RETURN answer; END LOOP; RETURN NULL; END $cluster$")


def test_figures_are_made_of_one_collection_after_the_other() -> None:
    """A node answers any query about a collection, where several have to be put together without those in between."""
    text = """CREATE OR REPLACE FUNCTION retrieval.analytics_uses(collection text)
 RETURNS SETOF uses
 LANGUAGE sql
 STABLE
BEGIN ATOMIC
 SELECT c.name, count(*) FROM (collections c JOIN feedback f ON ((f.collection_id = c.collection_id))) GROUP BY c.name;
END
"""
    statement = " ".join(for_cluster(text, is_query=True, is_set=True, is_of_figures=True).split())
    assert "FOR each_id IN SELECT own.collection_id FROM collections AS own" in statement
    assert "WHERE collection IS NULL OR own.name = collection LOOP RETURN QUERY SELECT" in statement
    assert "FROM ((SELECT * FROM collections WHERE collection_id = each_id) c JOIN feedback f" in statement
    assert "ON ((f.collection_id = each_id))) GROUP BY c.name; END LOOP; END $cluster$" in statement
