-- Use in the pieces of a report's window. A piece lies inside one bucket and one day of the site, so that the
-- dated mapping of accounts holds for all of it. Pieces are given as parallel arrays, in order, without gaps:
-- %(edges)s instants (one more than pieces), %(days)s site days, %(buckets)s number of the bucket, %(heads)s
-- whether the piece is the first of its bucket.
-- step: stretches cut to pieces: {running} selects ended or running ones. Running ones are cut at %(cut)s.
SELECT p.bucket, p.day, s.cluster, s.account, s.user_id, s.partition,
       greatest(0, extract(epoch FROM least(s.until, p.piece_end) - greatest(s.start_at, p.piece_start)))::bigint
           AS seconds, s.cpus, s.gpus, s.nodes,
       CASE WHEN s.closing AND s.end_at >= p.piece_start AND s.end_at < p.piece_end THEN s.suspended_seconds ELSE 0
           END AS suspended,
       p.head AND s.until > p.piece_start
           AND (s.start_at < p.piece_start OR (s.start_at = p.piece_start AND NOT s.opening)) AS carried,
       s.opening AND s.start_at >= p.piece_start AND s.start_at < p.piece_end AS started,
       s.job_opening AND s.start_at >= p.piece_start AND s.start_at < p.piece_end AS job_started,
       coalesce(s.job_closing AND s.end_at >= p.piece_start AND s.end_at < p.piece_end, false) AS job_ended,
       s.classes, s.units, s.run
FROM (
    SELECT x.*, coalesce(x.end_at, greatest(x.start_at, %(cut)s)) AS until FROM jobs_segment x
    WHERE {running} AND x.start_at < %(end)s AND coalesce(x.end_at, greatest(x.start_at, %(cut)s)) >= %(start)s
) s
CROSS JOIN LATERAL (
    SELECT (%(buckets)s::int[])[i] AS bucket, (%(days)s::date[])[i] AS day, (%(heads)s::boolean[])[i] AS head,
           (%(edges)s::timestamptz[])[i] AS piece_start, (%(edges)s::timestamptz[])[i + 1] AS piece_end
    FROM generate_series(greatest(1, width_bucket(s.start_at, %(edges)s::timestamptz[])),
                         least(%(pieces)s, width_bucket(s.until, %(edges)s::timestamptz[]))) AS i) p
-- step: sums of the pieces; {run} is empty, or the column run with its comma
SELECT {run} c.bucket, c.day, c.cluster, c.account, c.user_id, c.partition,
       coalesce(a.project, 'unmapped/' || c.account) AS project,
       coalesce(t.path, ARRAY[coalesce(a.project, 'unmapped/' || c.account)]) AS path,
       c.wall_seconds, c.cpu_seconds, c.gpu_seconds, c.node_seconds, c.suspended_seconds, c.carried,
       c.attempts_started, c.jobs_started, c.jobs_ended
FROM (
    SELECT {run} bucket, day, cluster, account, user_id, partition, sum(seconds) AS wall_seconds,
           sum(seconds * cpus) AS cpu_seconds, sum(seconds * gpus) AS gpu_seconds,
           sum(seconds * nodes) AS node_seconds, sum(suspended) AS suspended_seconds,
           count(*) FILTER (WHERE carried) AS carried, count(*) FILTER (WHERE started) AS attempts_started,
           count(*) FILTER (WHERE job_started) AS jobs_started, count(*) FILTER (WHERE job_ended) AS jobs_ended
    FROM ({pieces}) AS cuts GROUP BY {run} bucket, day, cluster, account, user_id, partition
) c
LEFT JOIN jobs_accountplace a
    ON a.cluster = c.cluster AND a.account = c.account AND c.day >= a.from_day AND c.day < a.to_day
LEFT JOIN jobs_projectplace t ON t.project = a.project AND c.day >= t.from_day AND c.day < t.to_day
-- step: the same from the roll-up by day, for windows whose pieces are whole days of the site
SELECT p.bucket, u.day, u.cluster, u.account, u.user_id, u.partition, u.project, u.path, u.wall_seconds,
       u.cpu_seconds, u.gpu_seconds, u.node_seconds, u.suspended_seconds,
       CASE WHEN p.head THEN u.attempts_carried ELSE 0 END AS carried, u.attempts_started, u.jobs_started,
       u.jobs_ended
FROM unnest(%(buckets)s::int[], %(days)s::date[], %(heads)s::boolean[]) AS p (bucket, day, head)
JOIN jobs_usageday u ON u.day = p.day
-- step: seconds of resource classes, of the pieces
SELECT c.bucket, c.day, c.cluster, c.account, c.user_id, c.partition,
       coalesce(a.project, 'unmapped/' || c.account) AS project,
       coalesce(t.path, ARRAY[coalesce(a.project, 'unmapped/' || c.account)]) AS path,
       c.resource_class, c.unit_seconds
FROM (
    SELECT bucket, day, cluster, account, user_id, partition, k.resource_class, sum(seconds * k.units) AS unit_seconds
    FROM ({pieces}) AS cuts CROSS JOIN LATERAL unnest(classes, units) AS k (resource_class, units)
    GROUP BY bucket, day, cluster, account, user_id, partition, k.resource_class
) c
LEFT JOIN jobs_accountplace a
    ON a.cluster = c.cluster AND a.account = c.account AND c.day >= a.from_day AND c.day < a.to_day
LEFT JOIN jobs_projectplace t ON t.project = a.project AND c.day >= t.from_day AND c.day < t.to_day
-- step: the same from the roll-up by day
SELECT p.bucket, u.day, u.cluster, u.account, u.user_id, u.partition, u.project, u.path, u.resource_class,
       u.unit_seconds
FROM unnest(%(buckets)s::int[], %(days)s::date[], %(heads)s::boolean[]) AS p (bucket, day, head)
JOIN jobs_classday u ON u.day = p.day
