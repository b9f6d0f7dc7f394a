"""A function that names the nearest ancestor of a kind in a project's path."""

from django.db import migrations

ANCESTOR = """
CREATE FUNCTION jobs_ancestor(p_path text[], p_kind text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT p.code FROM unnest(p_path) WITH ORDINALITY AS x (code, n)
                     JOIN jobs_project p ON p.code = x.code AND p.kind = p_kind ORDER BY x.n DESC LIMIT 1), '')
$$
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial")]

    operations = [migrations.RunSQL(ANCESTOR, "DROP FUNCTION jobs_ancestor(text[], text)")]
