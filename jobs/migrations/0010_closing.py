"""Runs whose name was closed: which run of its name each is."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0009_training")]

    operations = [
        migrations.CreateModel(
            name="Closing",
            fields=[
                ("pk", models.CompositePrimaryKey("account", "name", "generation", blank=True, editable=False,
                                                  primary_key=True, serialize=False)),
                ("account", models.TextField()),
                ("name", models.TextField()),
                ("generation", models.IntegerField()),
                ("closed", models.DateTimeField(db_column="closed_at")),
                ("actor", models.TextField()),
            ],
            options={"db_table": "jobs_closing"},
        ),
        migrations.AddField("job", "generation", models.IntegerField(db_default=1)),
        migrations.AddField("run", "generation", models.IntegerField(db_default=1)),
    ]  # fmt: skip
