-- Recomputes the runs that their users named, from their jobs and attempts; nothing is ever added to.
-- Needs: touched_runs(run). A job without a run name is a run of its own, written with the job.
-- step
DELETE FROM jobs_run r USING touched_runs t WHERE r.id = t.run
-- What no 64 bits hold is the largest number that they do: absurd sizes must not stop the books (verify tells of it).
-- step: its state is of a job that runs, else of one that waits, else of the one that ended last
INSERT INTO jobs_run (id, name, generation, named, cluster, account, user_id, submit, start_at, end_at, state, jobs, attempts,
    gpus, gpu_seconds, node_seconds, position)
SELECT t.run, l.run_name, l.generation, true, l.cluster, l.account, l.user_id, j.submit, a.start_at,
       CASE WHEN NOT j.open THEN j.over END, l.state, j.jobs, j.attempts,
       coalesce(s.gpus, 0), coalesce(s.gpu_seconds, 0), coalesce(s.node_seconds, 0), j.position
FROM touched_runs t
JOIN LATERAL (
    SELECT count(*) AS jobs, sum(x.attempts) AS attempts, min(x.submit) AS submit, max(x.position) AS position,
           bool_or(x."end" IS NULL) AS open, max(x."end") AS over
    FROM jobs_job x WHERE x.run = t.run AND x.run_name <> '' HAVING count(*) > 0) j ON true
JOIN LATERAL (
    SELECT x.run_name, x.generation, x.cluster, x.account, x.user_id, x.state
    FROM jobs_job x WHERE x.run = t.run AND x.run_name <> ''
    ORDER BY x."end" IS NULL AND x.start IS NOT NULL DESC, x."end" IS NULL DESC, x."end" DESC,
             x.submit DESC NULLS LAST, x.id LIMIT 1) l ON true
LEFT JOIN LATERAL (
    SELECT min(x.start_at) AS start_at FROM jobs_attempt x WHERE x.run = t.run) a ON true
LEFT JOIN LATERAL (
    SELECT max(y.gpus) AS gpus,
           least(coalesce(sum(extract(epoch FROM y.end_at - y.start_at)::bigint * y.gpus)
                          FILTER (WHERE x.end_at IS NOT NULL), 0), 9223372036854775807)::bigint AS gpu_seconds,
           least(coalesce(sum(extract(epoch FROM y.end_at - y.start_at)::bigint * y.nodes)
                          FILTER (WHERE x.end_at IS NOT NULL), 0), 9223372036854775807)::bigint AS node_seconds
    FROM (SELECT a.id, a.end_at FROM jobs_attempt a WHERE a.run = t.run OFFSET 0) x
    CROSS JOIN LATERAL (SELECT * FROM jobs_segment b WHERE b.attempt = x.id OFFSET 0) y) s ON true
-- step
DROP TABLE touched_runs
