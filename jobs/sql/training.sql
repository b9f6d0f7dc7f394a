-- What training programs say: which jobs are touched by a range of the log. Needs: touched_training(stream), of jobs.
-- step: streams heard in the range, and their jobs
CREATE TEMP TABLE heard ON COMMIT DROP AS
SELECT e.stream, 'job/' || min(e.data->>'cluster') || '/' || min(e.data->>'job_id') AS job_stream
FROM events_event e
WHERE e.shard = %(shard)s AND e.position > %(start)s AND e.position <= %(end)s AND e.type = ANY(%(types)s)
GROUP BY e.stream
-- step
INSERT INTO jobs_trainingstream (stream, job_stream) SELECT stream, job_stream FROM heard ON CONFLICT DO NOTHING
-- step
INSERT INTO touched_training SELECT DISTINCT job_stream FROM heard ON CONFLICT DO NOTHING
-- step
DROP TABLE heard
-- step: jobs of the instrumented ones whose attempts are folded anew
INSERT INTO touched_training
SELECT DISTINCT s.job_stream FROM touched_streams t JOIN jobs_trainingstream s ON s.job_stream = t.stream
ON CONFLICT DO NOTHING
-- step: earlier attempts of runs that took up an older state, now or as it was known before
INSERT INTO touched_training
SELECT DISTINCT a.stream
FROM (
    SELECT c.run, c.state, c.start_at FROM touched_training t JOIN jobs_checkpoint c ON c.stream = t.stream
    WHERE c.kind = 'restored' AND c.state IS NOT NULL
    UNION
    SELECT o.run, timestamptz 'epoch' + (e.data->>'state_ms')::bigint * interval '1 millisecond', e.occurred_at
    FROM touched_training t
    JOIN jobs_trainingstream s ON s.job_stream = t.stream
    JOIN events_event e ON e.shard = %(shard)s AND e.stream = s.stream AND e.position <= %(end)s
        AND e.type = 'checkpoint.restored' AND e.data->>'state_ms' IS NOT NULL
    JOIN jobs_attempt o ON o.stream = t.stream
) r
JOIN jobs_attempt a ON a.run = r.run AND a.end_at > r.state AND a.start_at <= r.start_at
WHERE EXISTS (SELECT 1 FROM jobs_trainingstream s WHERE s.job_stream = a.stream)
ON CONFLICT DO NOTHING
-- step: how many events each touched job has
SELECT t.stream, count(e.position)
FROM touched_training t
LEFT JOIN jobs_trainingstream s ON s.job_stream = t.stream
LEFT JOIN events_event e ON e.shard = %(shard)s AND e.stream = s.stream AND e.position <= %(end)s
GROUP BY t.stream ORDER BY t.stream
-- step: attempts of some jobs with their sizes
SELECT a.stream, a.id, a.run, a.start_at, a.end_at, a.state, a.cluster, a.job_id, a.number, a.account, a.user_id,
       a.partition,
       array(SELECT ARRAY[extract(epoch FROM g.start_at)::bigint, extract(epoch FROM g.end_at)::bigint, g.gpus]
             FROM jobs_segment g WHERE g.attempt = a.id ORDER BY g.seq) AS sizes
FROM jobs_attempt a WHERE a.stream = ANY(%(streams)s) ORDER BY a.stream, a.start_at, a.number
-- step: what the programs of some jobs said
SELECT s.job_stream, e.position, e.type, e.version, (extract(epoch FROM e.occurred_at) * 1000)::bigint, e.data::text
FROM jobs_trainingstream s
JOIN events_event e ON e.shard = %(shard)s AND e.stream = s.stream AND e.position <= %(end)s
WHERE s.job_stream = ANY(%(streams)s) AND e.type = ANY(%(types)s)
ORDER BY s.job_stream, e.position
-- step: which states the runs of some jobs took up, and when the attempts began that did
SELECT c.run, (extract(epoch FROM c.start_at) * 1000)::bigint, (extract(epoch FROM c.state) * 1000)::bigint
FROM jobs_checkpoint c
WHERE c.kind = 'restored' AND c.state IS NOT NULL AND c.run = ANY(%(runs)s)
