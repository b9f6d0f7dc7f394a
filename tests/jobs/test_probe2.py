import io
import pytest
from django.core.management import call_command
from tests.hand import *
pytestmark = pytest.mark.django_db
def test_x(payloads):
    d = payloads/"slurm"/"sacct"
    for names, zone, delim in [(["allocations.psv"],"UTC","|"),(["all_duplicates.psv.gz"],"UTC","|"),(["all_duplicates_epoch.psv.gz","all.psv.gz","requeue_before.psv","requeue_after.psv","requeue_after_no_duplicates.psv"],"UTC","|"),(["jobs_only_rig_tz.psv"],"Etc/GMT+11","|"),(["allocations_us.txt"],"UTC","0x1f")]:
        out=io.StringIO(); err=io.StringIO()
        call_command("import_sacct",*[str(d/n) for n in names],cluster="pod-a",timezone=zone,delimiter=delim,stdout=out,stderr=err)
        print(out.getvalue(), err.getvalue())
        r=ask("usage","2026-11-30T10:00:00Z","2026-11-30T11:00:00Z","user")
        print([(x["user"],x["gpu_seconds"],x["node_seconds"],x["suspended_seconds"]) for x in r.rows], r.total)
