"""Stretches are looked up by account and user when sums by day are made anew."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """One more index."""

    dependencies = [("jobs", "0004_array_index")]

    operations = [
        migrations.AddIndex(
            model_name="segment",
            index=models.Index(fields=["account", "user", "end"], name="jobs_segment_person"),
        ),
    ]
