-- Where allocated GPU-seconds went, one row per attempt that ended inside [%(start)s, %(end)s), and per running one if
-- %(cut)s lies inside: it counts until then, where it is counted. What no program told of after the last word of a
-- running attempt is `other`. {only} narrows to accounts; {run}: the figures of the whole run, or nulls;
-- {join}: LEFT JOIN, or JOIN for instrumented attempts only.
-- step: attempts
SELECT p.bucket, t.*, coalesce(a.project, 'unmapped/' || t.account) AS project,
       coalesce(y.path, ARRAY[coalesce(a.project, 'unmapped/' || t.account)]) AS path
FROM (
    SELECT x.cluster, x.account, x.user_id, x.partition, x.run, coalesce(x.end_at, %(cut)s) AS counted_at,
           (x.start_at AT TIME ZONE coalesce((SELECT timezone FROM fleet_site LIMIT 1), 'UTC'))::date AS day,
           CASE WHEN g.attempt IS NULL THEN coalesce(x.gpu_seconds, h.held, 0) ELSE g.allocated + h.tail END
               AS allocated,
           g.attempt IS NOT NULL AS told, g.productive, g.checkpoint_stall, g.rollback_replay, g.detect, g.teardown,
           g.init_restore, g.data_stall, g.partial_gang_wait, g.idle_held, g.other + h.tail AS other,
           g.rolled_back_seconds, {run}
    FROM jobs_attempt x
    {join} jobs_goodput g ON g.attempt = x.id
    CROSS JOIN LATERAL (
        SELECT CASE WHEN g.end_at IS NULL AND g.attempt IS NOT NULL
                    THEN greatest(0, floor(extract(epoch FROM %(cut)s - g.until_at)))::bigint * g.gpus
                    ELSE 0 END AS tail,
               CASE WHEN x.end_at IS NULL AND g.attempt IS NULL THEN (
                   SELECT sum(greatest(0, extract(epoch FROM coalesce(s.end_at, %(cut)s) - s.start_at))::bigint * s.gpus)
                   FROM jobs_segment s WHERE s.attempt = x.id) END AS held) h
    WHERE (x.end_at >= %(start)s AND x.end_at < %(end)s
           OR x.end_at IS NULL AND x.start_at < %(cut)s AND %(cut)s >= %(start)s AND %(cut)s < %(end)s) {only}
) t
CROSS JOIN LATERAL (
    SELECT (%(buckets)s::int[])[width_bucket(t.counted_at, %(edges)s::timestamptz[])] AS bucket) p
LEFT JOIN jobs_accountplace a
    ON a.cluster = t.cluster AND a.account = t.account AND t.day >= a.from_day AND t.day < a.to_day
LEFT JOIN jobs_projectplace y ON y.project = a.project AND t.day >= y.from_day AND t.day < y.to_day
-- step: figures of the whole run of an instrumented attempt x, for the ratio of productive time to wall time
CASE WHEN g.attempt IS NOT NULL THEN (
    SELECT coalesce(sum(w.productive_seconds), 0) FROM jobs_goodput w WHERE w.run = x.run) END AS run_productive,
CASE WHEN g.attempt IS NOT NULL THEN (
    SELECT coalesce(sum(w.gpu_seconds), 0) FROM jobs_attempt w WHERE w.run = x.run) END AS run_held,
CASE WHEN g.attempt IS NOT NULL THEN (
    SELECT coalesce(sum(w.gpu_seconds), 0) FROM jobs_attempt w WHERE w.run = x.run
        AND NOT EXISTS (SELECT 1 FROM jobs_goodput z WHERE z.attempt = w.id)) END AS run_untold,
CASE WHEN g.attempt IS NOT NULL THEN (
    SELECT extract(epoch FROM coalesce(r.end_at, %(cut)s) - (
        SELECT min(coalesce(j.eligible, j.submit)) FROM jobs_job j
        WHERE j.id = x.run OR (j.run = x.run AND j.run_name <> '')))::bigint
    FROM jobs_run r WHERE r.id = x.run) END AS run_wall
