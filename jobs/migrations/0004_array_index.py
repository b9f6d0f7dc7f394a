"""Jobs are found by the number of their array (search)."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0003_runs")]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("array_job_id__isnull", False)), fields=["array_job_id"], name="jobs_job_array"
            ),
        ),
    ]
