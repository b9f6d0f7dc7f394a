"""Samples of telemetry, kept for two days: their series, and the samples in tables by day."""

from django.db import migrations, models

SAMPLES = """
CREATE TABLE events_sample (
    t_ms bigint NOT NULL,
    value double precision,
    start_ms bigint,
    series uuid NOT NULL,
    shard smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (shard, series, t_ms)
) PARTITION BY RANGE (t_ms);
CREATE TABLE events_sample_rest PARTITION OF events_sample DEFAULT;
DO $$
DECLARE
    day date;
    begin_ms bigint;
BEGIN  -- upkeep makes the others (events.sampledays); these are there before the first sample comes
    FOR ahead IN -2..3 LOOP
        day := (now() AT TIME ZONE 'UTC')::date + ahead;
        begin_ms := extract(epoch FROM day)::bigint * 1000;
        EXECUTE format('CREATE TABLE events_sample_%s PARTITION OF events_sample FOR VALUES FROM (%s) TO (%s)',
                       to_char(day, 'YYYYMMDD'), begin_ms, begin_ms + 86400000);
    END LOOP;
END
$$;
"""


class Migration(migrations.Migration):
    dependencies = [("events", "0003_tally")]

    operations = [
        migrations.CreateModel(
            name="Sample",
            fields=[
                ("shard", models.SmallIntegerField(default=0)),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "shard", "series", "t_ms", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("series", models.UUIDField()),
                ("t_ms", models.BigIntegerField()),
                ("value", models.FloatField(null=True)),
                ("start_ms", models.BigIntegerField(null=True)),
            ],
            options={"db_table": "events_sample", "managed": False},
        ),
        migrations.CreateModel(
            name="SampleSeries",
            fields=[
                ("shard", models.SmallIntegerField(default=0)),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "shard", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("id", models.UUIDField()),
                ("metric", models.TextField()),
                ("labels", models.JSONField()),
                ("source", models.TextField()),
                ("first_seen", models.DateTimeField()),
                ("last_seen", models.DateTimeField()),
            ],
            options={
                "db_table": "events_sampleseries",
                "indexes": [models.Index(fields=["shard", "metric"], name="events_sampleseries_metric")],
            },
        ),
        migrations.RunSQL(SAMPLES, "DROP TABLE events_sample"),
    ]
