-- What runs used for a project inside [%(start)s, %(end)s); running stretches are cut at %(cut)s.
-- step: the stays of accounts at the project: instants from the site's first midnight of a day on. {scope} narrows to
-- what the caller may see
SELECT d.cluster, d.account,
       greatest(%(start)s, least(d.from_day::timestamp AT TIME ZONE %(zone)s,
                (d.from_day::timestamp - interval '1 hour') AT TIME ZONE %(zone)s + interval '1 hour')) AS from_at,
       least(%(end)s, d.to_day::timestamp AT TIME ZONE %(zone)s,
             (d.to_day::timestamp - interval '1 hour') AT TIME ZONE %(zone)s + interval '1 hour') AS to_at
FROM (
    SELECT a.cluster, a.account, greatest(a.from_day, p.from_day) AS from_day, least(a.to_day, p.to_day) AS to_day,
           coalesce(p.path, ARRAY[a.project]) AS path
    FROM jobs_accountplace a
    LEFT JOIN jobs_projectplace p ON p.project = a.project AND p.from_day < a.to_day AND a.from_day < p.to_day
    UNION ALL
    SELECT c.cluster, c.account, coalesce(lower(r), date '0001-01-01'), coalesce(upper(r), date '9999-12-31'),
           ARRAY['unmapped/' || c.account]
    FROM (SELECT DISTINCT s.cluster, s.account FROM jobs_segment s
          WHERE %(project)s LIKE 'unmapped/%%' AND s.account = substr(%(project)s, 10)) c
    CROSS JOIN LATERAL (
        SELECT '{{(,)}}'::datemultirange - coalesce(range_agg(daterange(a.from_day, a.to_day)), '{{}}') AS free
        FROM jobs_accountplace a WHERE a.cluster = c.cluster AND a.account = c.account) m
    CROSS JOIN LATERAL unnest(m.free) AS r
) d
WHERE d.path @> ARRAY[%(project)s] AND {scope}
-- step: what each run used in those stays, the {most} largest; sums over all runs ride on every row
WITH stays AS MATERIALIZED ({stays}),
held AS (
    SELECT s.*, s.end_at AS until, y.from_at, y.to_at
    FROM stays y CROSS JOIN LATERAL (
        SELECT * FROM jobs_segment x WHERE x.account = y.account AND x.cluster = y.cluster
            AND x.end_at >= y.from_at AND x.start_at < y.to_at OFFSET 0) s -- by index, never the whole table
    UNION ALL
    SELECT s.*, greatest(s.start_at, %(cut)s), y.from_at, y.to_at
    FROM stays y JOIN jobs_segment s ON s.account = y.account AND s.cluster = y.cluster
        AND s.end_at IS NULL AND s.start_at < y.to_at
), cuts AS (
    SELECT run, gpus, nodes,
           greatest(0, extract(epoch FROM least(until, to_at) - greatest(start_at, from_at)))::bigint AS seconds,
           (opening AND start_at >= from_at)
               OR (from_at = %(start)s AND until > from_at
                   AND (start_at < from_at OR (start_at = from_at AND NOT opening))) AS counts
    FROM held
)
SELECT u.run, CASE WHEN NOT r.named THEN j.cluster || '/' || j.job_id
                   WHEN r.generation > 1 THEN r.name || ' #' || r.generation ELSE r.name END,
       r.user_id, r.state, u.gpus, u.attempts,
       u.gpu_seconds, u.node_seconds, u.number, u.all_attempts, u.all_gpu_seconds, u.all_node_seconds
FROM (
    SELECT run, gpus, attempts, gpu_seconds, node_seconds, count(*) OVER () AS number,
           sum(attempts) OVER () AS all_attempts, sum(gpu_seconds) OVER () AS all_gpu_seconds,
           sum(node_seconds) OVER () AS all_node_seconds
    FROM (SELECT run, max(gpus) AS gpus, count(*) FILTER (WHERE counts) AS attempts,
                 sum(seconds * gpus) AS gpu_seconds, sum(seconds * nodes) AS node_seconds
          FROM cuts GROUP BY run HAVING bool_or(counts) OR sum(seconds) > 0) g
    ORDER BY gpu_seconds DESC, node_seconds DESC, run LIMIT %(most)s
) u
JOIN jobs_run r ON r.id = u.run LEFT JOIN jobs_job j ON j.id = u.run
ORDER BY u.gpu_seconds DESC, u.node_seconds DESC, u.run
