"""What models cannot say: the partitioned deliveries, the append function, and triggers that guard history."""

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

APPEND = """
CREATE FUNCTION events_append(p_shard smallint)
RETURNS TABLE (ord integer, pos bigint, same boolean)
LANGUAGE plpgsql
SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '2s'
AS $$
#variable_conflict use_column
-- Appends the rows of the temporary table `staged` (made by events/append.py) in order of `ord`.
-- Returns first (-1, last position before, null), then one row for each that is already in the log.
DECLARE
    v_position bigint;
    v_hash bytea;
    v_now timestamptz;
    v_count integer;
BEGIN
    SELECT h.position, h.hash INTO v_position, v_hash FROM events_head h WHERE h.shard = p_shard FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO events_head (shard, position, hash) VALUES (p_shard, 0, ''::bytea)
            ON CONFLICT DO NOTHING;
        SELECT h.position, h.hash INTO v_position, v_hash FROM events_head h WHERE h.shard = p_shard FOR UPDATE;
    END IF;
    v_now := clock_timestamp();
    UPDATE staged s SET known = k.position, same = (k.digest = s.digest)
        FROM events_eventkey k WHERE k.shard = p_shard AND k.key = s.key;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN QUERY SELECT -1, v_position, NULL::boolean;
    IF v_count > 0 THEN
        RETURN QUERY SELECT s.ord, s.known, s.same FROM staged s WHERE s.known IS NOT NULL;
    END IF;
    INSERT INTO events_eventkey (shard, key, position, digest)
        SELECT p_shard, s.key, v_position + row_number() OVER (ORDER BY s.ord), s.digest
        FROM staged s WHERE s.known IS NULL ORDER BY s.ord;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count = 0 THEN
        RETURN;
    END IF;
    INSERT INTO events_event (shard, position, id, source, source_key, type, version, stream,
                              occurred_at, recorded_at, actor, delivery, data)
        SELECT p_shard, v_position + row_number() OVER (ORDER BY s.ord), s.key, s.source, s.source_key, s.type,
               s.version, s.stream, timestamptz 'epoch' + s.occurred_us * interval '1 microsecond', v_now,
               s.actor, s.delivery, convert_from(s.data, 'UTF8')::jsonb
        FROM staged s WHERE s.known IS NULL ORDER BY s.ord;
    SELECT sha256(v_hash || int8send((extract(epoch FROM v_now) * 1000000)::bigint)
                  || string_agg(int8send(v_position + r.n) || r.digest || coalesce(uuid_send(r.delivery), ''), ''::bytea
                                ORDER BY r.n))
        INTO v_hash
        FROM (SELECT row_number() OVER (ORDER BY s.ord) AS n, s.digest, s.delivery
              FROM staged s WHERE s.known IS NULL) r;
    INSERT INTO events_block (shard, upto, count, recorded_at, hash)
        VALUES (p_shard, v_position + v_count, v_count, v_now, v_hash);
    UPDATE events_head SET position = v_position + v_count, hash = v_hash WHERE shard = p_shard;
END
$$;
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
        migrations.RunSQL(APPEND, "DROP FUNCTION events_append(smallint)"),
        migrations.RunSQL(GUARDS, "DROP FUNCTION events_refuse() CASCADE"),
    ]
