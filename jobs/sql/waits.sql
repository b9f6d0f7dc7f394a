-- Why jobs waited: looks of the scheduler become stretches of waiting. Nothing is ever added to.
-- step: streams whose waiting is to be done anew
DROP TABLE IF EXISTS pg_temp.touched_waits;
CREATE TEMP TABLE touched_waits (stream text COLLATE "C" PRIMARY KEY) ON COMMIT DROP
-- step: of the streams folded now those that were looked at; a task that waited was looked at as its array
INSERT INTO touched_waits
SELECT t.stream FROM touched_streams t
WHERE EXISTS (SELECT 1 FROM jobs_look l WHERE l.stream = t.stream)
   OR (t.known AND EXISTS (SELECT 1 FROM jobs_wait w WHERE w.stream = t.stream))
UNION
SELECT j.stream FROM touched_streams t
CROSS JOIN LATERAL (
    SELECT x.stream, x.cluster, x.array_job_id FROM jobs_job x
    WHERE x.stream = t.stream AND x.array_job_id <> x.job_id OFFSET 0) j
WHERE EXISTS (SELECT 1 FROM jobs_look l WHERE l.stream = 'job/' || j.cluster || '/' || j.array_job_id)
UNION
SELECT j.stream FROM touched_streams t
CROSS JOIN LATERAL (
    SELECT x.stream FROM jobs_job x
    WHERE x.array_job_id = split_part(t.stream COLLATE "default", '/', 3) -- the index is in the database's collation
      AND x.cluster = split_part(t.stream, '/', 2) OFFSET 0) j
WHERE EXISTS (SELECT 1 FROM jobs_look l WHERE l.stream = t.stream)
ON CONFLICT DO NOTHING
-- step
DELETE FROM jobs_wait w USING touched_waits t WHERE w.stream = t.stream
-- step: every wait from its submission (or its eligibility, where that is earlier) to its end, cut at both and at looks;
-- a task of an array waits as its array until it is looked at by itself, and after its first attempt by itself
INSERT INTO jobs_wait (job, number, seq, attempt, run, stream, cluster, account, user_id, partition, cause, reason,
    start_at, end_at, since_eligible, since_submit)
WITH waits AS (
    SELECT a.job, a.number, a.id AS attempt, a.run, a.stream, a.cluster, a.account, a.user_id, a.partition,
           a.submit, a.eligible, a.start_at AS upto, 'job/' || j.cluster || '/' || j.array_job_id AS array_stream
    FROM touched_waits t
    CROSS JOIN LATERAL (SELECT * FROM jobs_attempt x WHERE x.stream = t.stream OFFSET 0) a
    JOIN jobs_job j ON j.id = a.job
    UNION ALL
    SELECT j.id, j.attempts + 1, NULL, j.run, j.stream, j.cluster, j.account, j.user_id, j.partition,
           CASE WHEN j.attempts = 0 THEN j.submit ELSE a.end_at END, CASE WHEN j.attempts = 0 THEN j.eligible END,
           j."end", 'job/' || j.cluster || '/' || j.array_job_id
    FROM touched_waits t
    CROSS JOIN LATERAL (SELECT * FROM jobs_job x WHERE x.stream = t.stream OFFSET 0) j
    LEFT JOIN LATERAL (
        SELECT max(x.end_at) AS end_at, bool_or(x.end_at IS NULL) AS runs FROM jobs_attempt x WHERE x.job = j.id) a
        ON true
    WHERE j.attempts = 0 OR (j."end" IS NULL AND NOT a.runs)),
begun AS (
    SELECT w.*, least(w.submit, w.eligible) AS lo FROM waits w
    WHERE least(w.submit, w.eligible) < coalesce(w.upto, 'infinity')),
told AS (
    SELECT b.job, b.number, greatest(l.at, b.lo) AS at, l.cause, l.reason
    FROM begun b
    JOIN jobs_look l ON l.stream = ANY(CASE WHEN b.number = 1 THEN ARRAY[b.stream, b.array_stream] ELSE ARRAY[b.stream] END)
        AND l.at >= b.lo - interval '2 seconds' AND l.at < coalesce(b.upto, 'infinity')
    WHERE l.stream = b.stream OR NOT EXISTS (
        SELECT 1 FROM jobs_look o
        WHERE o.stream = b.stream AND o.at >= b.lo - interval '2 seconds' AND o.at <= l.at)),
cuts AS (
    SELECT job, number, at, 1 AS told, cause, reason FROM told
    UNION ALL SELECT job, number, lo, 0, NULL, NULL FROM begun
    UNION ALL SELECT job, number, submit, 0, NULL, NULL FROM begun WHERE submit > lo AND submit < coalesce(upto, 'infinity')
    UNION ALL SELECT job, number, eligible, 0, NULL, NULL FROM begun
        WHERE eligible > lo AND eligible < coalesce(upto, 'infinity')),
placed AS (
    SELECT c.*, lead(c.at) OVER w AS until, count(c.cause) OVER w AS looks,
           first_value(c.at) OVER first AS first_at, first_value(c.cause) OVER first AS first_cause,
           first_value(c.reason) OVER first AS first_reason
    FROM cuts c
    WINDOW w AS (PARTITION BY job, number ORDER BY at, told, cause, reason),
           first AS (PARTITION BY job, number ORDER BY told DESC, at, cause, reason)),
spoken AS (
    SELECT p.*, first_value(p.cause) OVER g AS said, first_value(p.reason) OVER g AS word
    FROM placed p
    WINDOW g AS (PARTITION BY job, number, looks ORDER BY at, told, cause, reason)),
stretches AS (
    SELECT b.*, s.at, coalesce(s.until, b.upto) AS until,
           b.eligible IS NOT NULL AND s.at >= b.eligible AS since_eligible,
           b.submit IS NOT NULL AND s.at >= b.submit AS since_submit,
           CASE WHEN s.looks > 0 THEN s.said
                WHEN s.at < b.eligible THEN 'dependency_or_hold'
                WHEN s.first_at <= b.lo + interval '{first_look} seconds' THEN coalesce(s.first_cause, 'unknown')
                ELSE 'unknown' END AS cause,
           CASE WHEN s.looks > 0 THEN s.word
                WHEN s.at >= coalesce(b.eligible, b.lo) AND s.first_at <= b.lo + interval '{first_look} seconds'
                THEN coalesce(s.first_reason, '') ELSE '' END AS reason
    FROM spoken s JOIN begun b ON b.job = s.job AND b.number = s.number
    WHERE s.until IS NULL OR s.until > s.at),
marked AS (
    SELECT x.*, (x.cause, x.reason, x.since_eligible, x.since_submit)
        IS DISTINCT FROM lag((x.cause, x.reason, x.since_eligible, x.since_submit)) OVER w AS new
    FROM stretches x WINDOW w AS (PARTITION BY job, number ORDER BY at)),
numbered AS (
    SELECT m.*, count(*) FILTER (WHERE m.new) OVER (PARTITION BY job, number ORDER BY at) AS seq FROM marked m)
SELECT job, number, seq, attempt, run, stream, cluster, account, user_id, partition, cause, reason, min(at),
       CASE WHEN bool_or(until IS NULL) THEN NULL ELSE max(until) END, since_eligible, since_submit
FROM numbered
GROUP BY job, number, seq, attempt, run, stream, cluster, account, user_id, partition, cause, reason, since_eligible,
         since_submit
-- step
DROP TABLE touched_waits
