-- GPU-seconds held in vain, one row per attempt that ended, each second under one cause: rules in jobs/waste.py.
-- step: judged: attempts x with their causes. {which} selects them; {limit}: seconds of the job's time limit, or null
SELECT x.cluster, x.account, x.user_id, x.partition, x.run, x.end_at, x.day, x.allocated,
       x.rolled_back, x.partial_gang, x.restart, x.never_used, x.idle,
       CASE WHEN x.state = ANY({failed}) THEN x.whole ELSE 0 END AS failed,
       CASE WHEN x.state = ANY({cancelled}) THEN x.whole ELSE 0 END AS cancelled,
       CASE WHEN x.state = ANY({timed_out}) THEN x.whole ELSE 0 END AS timed_out,
       CASE WHEN NOT x.told AND (x.lost OR x.state = ANY({not_judged})) THEN x.allocated END AS not_judged,
       x.limit_seconds,
       CASE WHEN x.limit_seconds IS NOT NULL
            THEN greatest(0, extract(epoch FROM x.end_at - x.start_at)::bigint - x.suspended_seconds) END AS used_seconds
FROM (
    SELECT x.cluster, x.account, x.user_id, x.partition, x.run, x.start_at, x.end_at, x.state, x.lost, x.suspended_seconds,
           (x.start_at AT TIME ZONE coalesce((SELECT timezone FROM fleet_site LIMIT 1), 'UTC'))::date AS day,
           h.allocated, h.told, {limit} AS limit_seconds,
           coalesce(g.rollback_replay, 0) AS rolled_back, coalesce(g.partial_gang_wait, 0) AS partial_gang,
           CASE WHEN g.work_lost AND x.state <> ALL({at_limit}) THEN g.detect + g.teardown ELSE 0 END
           + CASE WHEN coalesce(g.init_restore, 0) > 0 AND (
                 SELECT CASE WHEN b.state = ANY({at_limit}) THEN false
                             ELSE coalesce(w.work_lost, b.state = ANY({faults})) END AS lost
                 FROM jobs_attempt b LEFT JOIN jobs_goodput w ON w.attempt = b.id
                 WHERE b.run = x.run AND b.start_at < x.start_at AND b.end_at <= x.start_at
                 ORDER BY b.start_at DESC, lost DESC LIMIT 1)
             THEN g.init_restore ELSE 0 END AS restart,
           seen.never_used, CASE WHEN h.told THEN g.idle_held ELSE seen.idle END AS idle,
           CASE WHEN NOT h.told AND h.allocated > {least}
                THEN greatest(0, h.allocated - coalesce(seen.never_used, 0) - coalesce(seen.idle, 0)) ELSE 0 END AS whole
    FROM jobs_attempt x
    LEFT JOIN jobs_goodput g ON g.attempt = x.id
    CROSS JOIN LATERAL (SELECT g.attempt IS NOT NULL AS told, coalesce(g.allocated, x.gpu_seconds, 0) AS allocated) h
    -- Of attempts that told nothing, what telemetry saw: no source tells it, so it is null, not 0.
    CROSS JOIN (SELECT NULL::bigint AS never_used, NULL::bigint AS idle) seen
    WHERE x.end_at IS NOT NULL AND {which}
    OFFSET 0  -- what is computed here is used several times, and computed once
) x
OFFSET 0
-- step: placed: judged attempts of a window, in buckets and under the project of the day of their start
SELECT p.bucket, t.*, {wasted} AS wasted, coalesce(a.project, 'unmapped/' || t.account) AS project,
       coalesce(y.path, ARRAY[coalesce(a.project, 'unmapped/' || t.account)]) AS path
FROM ({judged}) t
CROSS JOIN LATERAL (
    SELECT (%(buckets)s::int[])[width_bucket(t.end_at, %(edges)s::timestamptz[])] AS bucket) p
LEFT JOIN jobs_accountplace a
    ON a.cluster = t.cluster AND a.account = t.account AND t.day >= a.from_day AND t.day < a.to_day
LEFT JOIN jobs_projectplace y ON y.project = a.project AND t.day >= y.from_day AND t.day < y.to_day
