-- Which keys of the roll-ups have to be recomputed, by cause. Fills touched(day, cluster, account, ...).
-- step: streams: the days of their ended stretches (run before their rows are replaced, and again after). One index
-- range per stream, whatever the statistics say (OFFSET 0 keeps the planner from reading the table for a few streams)
INSERT INTO touched
SELECT DISTINCT g.at::date, s.cluster, s.account, s.user_id, s.partition
FROM touched_streams t
CROSS JOIN LATERAL (SELECT * FROM jobs_segment x WHERE x.stream = t.stream OFFSET 0) s
CROSS JOIN LATERAL generate_series((s.start_at AT TIME ZONE %(zone)s)::date, (s.end_at AT TIME ZONE %(zone)s)::date,
                                   interval '1 day') AS g (at)
WHERE s.end_at IS NOT NULL
ON CONFLICT DO NOTHING
-- step: dimensions: every key whose project or place in the tree is not what it was computed with
INSERT INTO touched
SELECT u.day, u.cluster, u.account, u.user_id, u.partition
FROM jobs_usageday u
LEFT JOIN jobs_accountplace a
    ON a.cluster = u.cluster AND a.account = u.account AND u.day >= a.from_day AND u.day < a.to_day
LEFT JOIN jobs_projectplace p ON p.project = a.project AND u.day >= p.from_day AND u.day < p.to_day
WHERE (u.project, u.path) IS DISTINCT FROM (
    coalesce(a.project, 'unmapped/' || u.account),
    coalesce(p.path, ARRAY[coalesce(a.project, 'unmapped/' || u.account)]))
ON CONFLICT DO NOTHING
-- step: the site's zone: days start elsewhere, so every old key and every new one
INSERT INTO touched
SELECT u.day, u.cluster, u.account, u.user_id, u.partition FROM jobs_usageday u
UNION
SELECT g.at::date, s.cluster, s.account, s.user_id, s.partition
FROM jobs_segment s
CROSS JOIN LATERAL generate_series((s.start_at AT TIME ZONE %(zone)s)::date, (s.end_at AT TIME ZONE %(zone)s)::date,
                                   interval '1 day') AS g (at)
WHERE s.end_at IS NOT NULL
ON CONFLICT DO NOTHING
