-- Recomputes the roll-ups of the touched keys from segments and dated dimensions; nothing is ever added to.
-- Needs: touched(day, cluster, account, user_id, partition). Parameter %(zone)s: the site's time zone.
-- A day starts when its midnight comes first: where clocks go back over it (Havana, the Azores) AT TIME ZONE gives
-- the second one, an hour before it gives the first.
-- step: the span of days touched of each account and user
CREATE TEMP TABLE touched_spans ON COMMIT DROP AS
SELECT account, user_id, min(day) AS first_day, max(day) AS last_day,
       min(day)::timestamp AT TIME ZONE %(zone)s - interval '1 hour' AS span_start,
       (max(day) + 1)::timestamp AT TIME ZONE %(zone)s AS span_end
FROM touched GROUP BY account, user_id
-- step: each ended stretch of those, cut to days. One index range per account and user, whatever the statistics
-- say (OFFSET 0 keeps the planner from turning the join around)
CREATE TEMP TABLE touched_parts ON COMMIT DROP AS
SELECT d.day, s.cluster, s.account, s.user_id, s.partition, s.nodes, s.cpus, s.gpus, s.classes, s.units,
       greatest(0, extract(epoch FROM least(s.end_at, d.day_end) - greatest(s.start_at, d.day_start)))::bigint
           AS seconds,
       s.opening AND s.start_at >= d.day_start AND s.start_at < d.day_end AS started,
       s.job_opening AND s.start_at >= d.day_start AND s.start_at < d.day_end AS job_started,
       s.job_closing AND s.end_at >= d.day_start AND s.end_at < d.day_end AS job_ended,
       s.end_at > d.day_start AND (s.start_at < d.day_start OR (s.start_at = d.day_start AND NOT s.opening))
           AS carried,
       CASE WHEN s.closing AND s.end_at >= d.day_start AND s.end_at < d.day_end THEN s.suspended_seconds ELSE 0
           END AS suspended
FROM touched_spans p
CROSS JOIN LATERAL (
    SELECT * FROM jobs_segment x
    WHERE x.account = p.account AND x.user_id = p.user_id AND x.end_at >= p.span_start AND x.start_at < p.span_end OFFSET 0) s
CROSS JOIN LATERAL (
    SELECT g.day,
           least(g.day::timestamp AT TIME ZONE %(zone)s,
                 (g.day::timestamp - interval '1 hour') AT TIME ZONE %(zone)s + interval '1 hour') AS day_start,
           least((g.day + 1)::timestamp AT TIME ZONE %(zone)s,
                 (g.day::timestamp + interval '23 hours') AT TIME ZONE %(zone)s
                 + interval '1 hour') AS day_end
    FROM (SELECT f.day + generate_series(0, f.days) AS day
          FROM (SELECT greatest((s.start_at AT TIME ZONE %(zone)s)::date, p.first_day) AS day,
                       least((s.end_at AT TIME ZONE %(zone)s)::date, p.last_day)
                       - greatest((s.start_at AT TIME ZONE %(zone)s)::date, p.first_day) AS days) f) g) d
-- step
ANALYZE touched_parts
-- step
DELETE FROM jobs_usageday u USING touched t
WHERE u.day = t.day AND u.cluster = t.cluster AND u.account = t.account AND u.user_id = t.user_id
    AND u.partition = t.partition
-- step
DELETE FROM jobs_classday u USING touched t
WHERE u.day = t.day AND u.cluster = t.cluster AND u.account = t.account AND u.user_id = t.user_id
    AND u.partition = t.partition
-- step: in the order of days, so that the rows that a report reads lie together, also after a rebuild
INSERT INTO jobs_usageday (day, cluster, account, user_id, partition, project, path, wall_seconds, cpu_seconds,
    gpu_seconds, node_seconds, suspended_seconds, attempts_carried, attempts_started, jobs_started, jobs_ended)
SELECT u.day, u.cluster, u.account, u.user_id, u.partition, coalesce(a.project, 'unmapped/' || u.account),
       coalesce(p.path, ARRAY[coalesce(a.project, 'unmapped/' || u.account)]), u.wall, u.cpu, u.gpu,
       u.node, u.suspended, u.carried, u.started, u.jobs_started, u.jobs_ended
FROM (
    SELECT day, cluster, account, user_id, partition, sum(seconds) AS wall, sum(seconds * cpus) AS cpu,
           sum(seconds * gpus) AS gpu, sum(seconds * nodes) AS node, sum(suspended) AS suspended,
           count(*) FILTER (WHERE carried) AS carried, count(*) FILTER (WHERE started) AS started,
           count(*) FILTER (WHERE job_started) AS jobs_started, count(*) FILTER (WHERE job_ended) AS jobs_ended
    FROM touched_parts JOIN touched USING (day, cluster, account, user_id, partition)
    GROUP BY day, cluster, account, user_id, partition
    HAVING sum(seconds) > 0 OR bool_or(carried OR started OR job_started OR job_ended)
) u
LEFT JOIN jobs_accountplace a
    ON a.cluster = u.cluster AND a.account = u.account AND u.day >= a.from_day AND u.day < a.to_day
LEFT JOIN jobs_projectplace p ON p.project = a.project AND u.day >= p.from_day AND u.day < p.to_day
ORDER BY u.day, a.project
-- step
INSERT INTO jobs_classday (day, cluster, account, user_id, partition, resource_class, project, path, unit_seconds)
SELECT u.day, u.cluster, u.account, u.user_id, u.partition, u.resource_class,
       coalesce(a.project, 'unmapped/' || u.account),
       coalesce(p.path, ARRAY[coalesce(a.project, 'unmapped/' || u.account)]), u.unit_seconds
FROM (
    SELECT day, cluster, account, user_id, partition, c.resource_class,
           sum(t.seconds * c.units) AS unit_seconds
    FROM touched_parts t JOIN touched USING (day, cluster, account, user_id, partition)
    CROSS JOIN LATERAL unnest(t.classes, t.units) AS c (resource_class, units)
    GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(t.seconds * c.units) > 0
) u
LEFT JOIN jobs_accountplace a
    ON a.cluster = u.cluster AND a.account = u.account AND u.day >= a.from_day AND u.day < a.to_day
LEFT JOIN jobs_projectplace p ON p.project = a.project AND u.day >= p.from_day AND u.day < p.to_day
ORDER BY u.day, a.project
-- step
DROP TABLE touched_parts, touched_spans, touched
