"""Statements about the read models of jobs that must hold: what is used is conserved."""

from __future__ import annotations

from typing import Any, Final

CONSERVED: Final = """
SELECT 'wall seconds of segments and of usage by day' AS what,
       (SELECT coalesce(sum(extract(epoch FROM end_at - start_at)), 0)::numeric FROM jobs_segment
        WHERE end_at IS NOT NULL),
       (SELECT coalesce(sum(wall_seconds), 0)::numeric FROM jobs_usageday)
UNION ALL
SELECT 'GPU-seconds of segments and of usage by day',
       (SELECT coalesce(sum(extract(epoch FROM end_at - start_at) * gpus), 0)::numeric FROM jobs_segment
        WHERE end_at IS NOT NULL),
       (SELECT coalesce(sum(gpu_seconds), 0)::numeric FROM jobs_usageday)
UNION ALL
SELECT 'GPU-seconds of usage by day and of resource classes by day',
       (SELECT coalesce(sum(gpu_seconds), 0)::numeric FROM jobs_usageday),
       (SELECT coalesce(sum(unit_seconds), 0)::numeric FROM jobs_classday WHERE resource_class <> 'cpu')
UNION ALL
SELECT 'starts of attempts and starts counted by day',
       (SELECT count(*) FROM jobs_segment WHERE opening AND end_at IS NOT NULL),
       (SELECT coalesce(sum(attempts_started), 0)::numeric FROM jobs_usageday)
UNION ALL
SELECT 'GPU-seconds of ended attempts and of runs',
       (SELECT coalesce(sum(gpu_seconds), 0)::numeric FROM jobs_attempt),
       (SELECT coalesce(sum(gpu_seconds), 0)::numeric FROM jobs_run)
UNION ALL
SELECT 'GPU-seconds of instrumented attempts and of their parts',
       (SELECT coalesce(sum(allocated), 0)::numeric FROM jobs_goodput),
       (SELECT coalesce(sum(productive + checkpoint_stall + rollback_replay + detect + teardown + init_restore
                            + data_stall + partial_gang_wait + idle_held + other), 0)::numeric FROM jobs_goodput)
UNION ALL
SELECT 'GPU-seconds of ended attempts and of their partition',
       (SELECT coalesce(sum(a.gpu_seconds), 0)::numeric FROM jobs_goodput g JOIN jobs_attempt a ON a.id = g.attempt
        WHERE a.end_at IS NOT NULL),
       (SELECT coalesce(sum(allocated), 0)::numeric FROM jobs_goodput WHERE end_at IS NOT NULL)
UNION ALL
SELECT 'seconds of waits that were looked at and of their stretches',
       (SELECT coalesce(sum(extract(epoch FROM greatest(interval '0', a.start_at - a.eligible))
                        + extract(epoch FROM greatest(interval '0', a.start_at - a.submit))), 0)::numeric
        FROM jobs_attempt a WHERE EXISTS (SELECT 1 FROM jobs_wait w WHERE w.attempt = a.id)),
       (SELECT coalesce(sum(extract(epoch FROM w.end_at - w.start_at)
                            * (w.since_eligible::int + w.since_submit::int)), 0)::numeric
        FROM jobs_wait w WHERE w.attempt IS NOT NULL)
UNION ALL
SELECT 'jobs and jobs of runs', (SELECT count(*) FROM jobs_job), (SELECT coalesce(sum(jobs), 0) FROM jobs_run)
"""


def check(cursor: Any) -> list[str]:
    """What is not conserved, one sentence each; empty when everything adds up."""
    cursor.execute(CONSERVED)
    return [f"{what}: {one} and {other}" for what, one, other in cursor.fetchall() if one != other]
