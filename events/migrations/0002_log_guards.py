"""What models cannot say: the partitioned deliveries, and triggers that guard history."""

from django.db import migrations

DELIVERIES = """
CREATE TABLE events_delivery (
    shard smallint NOT NULL DEFAULT 0,
    received_at timestamptz NOT NULL,
    id uuid NOT NULL,
    source text NOT NULL,
    kind text NOT NULL,
    content_type text NOT NULL,
    headers jsonb NOT NULL,
    body bytea NOT NULL,
    sha256 bytea NOT NULL,
    actor text NOT NULL,
    state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done', 'rejected')),
    tries smallint NOT NULL DEFAULT 0,
    error text NOT NULL DEFAULT '',
    PRIMARY KEY (shard, received_at, id)
) PARTITION BY RANGE (received_at);
CREATE TABLE events_delivery_rest PARTITION OF events_delivery DEFAULT;
CREATE INDEX events_delivery_pending ON events_delivery (shard, received_at, id) WHERE state = 'pending';
CREATE INDEX events_delivery_id ON events_delivery (shard, id);
"""

GUARDS = """
CREATE FUNCTION events_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END
$$;
""" + "".join(
    f"""
CREATE TRIGGER append_only_rows BEFORE UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION events_refuse();
CREATE TRIGGER append_only_table BEFORE TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION events_refuse();
"""
    for table in ("events_event", "events_eventkey", "events_block", "events_seal")
)


class Migration(migrations.Migration):
    dependencies = [("events", "0001_initial")]

    operations = [
        migrations.RunSQL(DELIVERIES, "DROP TABLE events_delivery"),
        migrations.RunSQL(GUARDS, "DROP FUNCTION events_refuse() CASCADE"),
    ]
