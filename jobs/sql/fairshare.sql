-- Which balances of fair share have to be computed anew, and what they are computed from.
-- step: streams: when their ended stretches ran (run before their rows are replaced, and again after). One index
-- range per stream, whatever the statistics say. Fills touched_use
INSERT INTO touched_use
SELECT s.cluster, s.account, s.user_id, s.partition, min(extract(epoch FROM s.start_at))::bigint,
       max(extract(epoch FROM s.end_at))::bigint
FROM touched_streams t
CROSS JOIN LATERAL (SELECT * FROM jobs_segment x WHERE x.stream = t.stream OFFSET 0) s
WHERE s.end_at IS NOT NULL AND s.cluster = ANY(%(clusters)s)
GROUP BY 1, 2, 3, 4
-- step: clusters whose configuration changed: everything. Their old balances are gone by now
INSERT INTO touched_use
SELECT s.cluster, s.account, s.user_id, s.partition, min(extract(epoch FROM s.start_at))::bigint,
       max(extract(epoch FROM s.end_at))::bigint
FROM jobs_segment s WHERE s.end_at IS NOT NULL AND s.cluster = ANY(%(clusters)s)
GROUP BY 1, 2, 3, 4
-- step: the keys that were touched, and between which seconds
SELECT cluster, account, user_id, partition, min(first_s), max(last_s) FROM touched_use GROUP BY 1, 2, 3, 4
ORDER BY 1, 2, 3, 4
-- step: ended stretches of some keys between their edges: number of the key, start, end and size. One index range per
-- key, whatever the statistics say
SELECT k.n, extract(epoch FROM s.start_at)::bigint, extract(epoch FROM s.end_at)::bigint, s.cpus, s.gpus, s.nodes,
       CASE WHEN NOT s.opening THEN (SELECT extract(epoch FROM min(o.start_at))::bigint FROM jobs_segment o
                                      WHERE o.attempt = s.attempt) END AS began
FROM unnest(%(clusters)s::text[], %(accounts)s::text[], %(users)s::text[], %(partitions)s::text[], %(starts)s::bigint[],
            %(ends)s::bigint[]) WITH ORDINALITY AS k (cluster, account, user_id, partition, start_s, end_s, n)
CROSS JOIN LATERAL (
    SELECT * FROM jobs_segment x
    WHERE x.account = k.account AND x.user_id = k.user_id AND x.end_at > to_timestamp(k.start_s)
        AND x.start_at < to_timestamp(k.end_s) AND x.cluster = k.cluster AND x.partition = k.partition OFFSET 0) s
-- step: of those keys the last balance before the days touched, and every later day that is not touched itself
SELECT k.n, b.day, b.used, b.spent, b.balance, b.total, b.day < k.first_day
FROM unnest(%(clusters)s::text[], %(accounts)s::text[], %(users)s::text[], %(partitions)s::text[], %(days)s::date[],
            %(untils)s::date[]) WITH ORDINALITY AS k (cluster, account, user_id, partition, first_day, last_day, n)
CROSS JOIN LATERAL (
    (SELECT x.day, x.used, x.spent, x.balance, x.total FROM jobs_balance x
     WHERE x.cluster = k.cluster AND x.account = k.account AND x.user_id = k.user_id AND x.partition = k.partition
         AND x.day < k.first_day ORDER BY x.day DESC LIMIT 1)
    UNION ALL
    SELECT x.day, x.used, x.spent, x.balance, x.total FROM jobs_balance x
    WHERE x.cluster = k.cluster AND x.account = k.account AND x.user_id = k.user_id AND x.partition = k.partition
        AND x.day > k.last_day) b
-- step: away with what is written anew
DELETE FROM jobs_balance b
USING unnest(%(clusters)s::text[], %(accounts)s::text[], %(users)s::text[], %(partitions)s::text[], %(days)s::date[])
    AS k (cluster, account, user_id, partition, first_day)
WHERE b.cluster = k.cluster AND b.account = k.account AND b.user_id = k.user_id AND b.partition = k.partition
    AND b.day >= k.first_day
-- step: the last balance up to a day of every key of some accounts of a cluster (null: of all): from key to key by the
-- index, not through all days. Backwards, so that the first row met of a key is mostly the one
WITH RECURSIVE named AS (
    SELECT min(account) AS account FROM jobs_balance WHERE cluster = %(cluster)s AND %(accounts)s::text[] IS NULL
    UNION ALL
    SELECT (SELECT min(b.account) FROM jobs_balance b WHERE b.cluster = %(cluster)s AND b.account > n.account)
    FROM named n WHERE n.account IS NOT NULL),
keys AS (
    SELECT f.*
    FROM (SELECT account FROM named WHERE account IS NOT NULL UNION ALL SELECT unnest(%(accounts)s::text[])) a
    CROSS JOIN LATERAL (
        SELECT b.account, b.user_id, b.partition, b.day, b.balance, b.total FROM jobs_balance b
        WHERE b.cluster = %(cluster)s AND b.account = a.account
        ORDER BY b.user_id DESC, b.partition DESC, b.day DESC LIMIT 1) f
    UNION ALL
    SELECT n.* FROM keys k
    CROSS JOIN LATERAL (
        SELECT b.account, b.user_id, b.partition, b.day, b.balance, b.total FROM jobs_balance b
        WHERE b.cluster = %(cluster)s AND b.account = k.account AND (b.user_id, b.partition) < (k.user_id, k.partition)
        ORDER BY b.user_id DESC, b.partition DESC, b.day DESC LIMIT 1) n)
SELECT account, user_id, partition, day, balance, total FROM keys WHERE day <= %(day)s
UNION ALL
SELECT k.account, k.user_id, k.partition, l.day, l.balance, l.total
FROM keys k
CROSS JOIN LATERAL (
    SELECT b.day, b.balance, b.total FROM jobs_balance b
    WHERE b.cluster = %(cluster)s AND b.account = k.account AND b.user_id = k.user_id AND b.partition = k.partition
        AND b.day <= %(day)s ORDER BY b.day DESC LIMIT 1) l
WHERE k.day > %(day)s
-- step: balances on the days of a window, for its history
SELECT account, user_id, partition, day, balance, total FROM jobs_balance
WHERE cluster = %(cluster)s AND day > %(day)s AND day <= %(until)s ORDER BY day
-- step: stretches that ended after an instant and began before another one
SELECT account, user_id, partition, extract(epoch FROM start_at)::bigint, extract(epoch FROM end_at)::bigint,
       cpus, gpus, nodes,
       CASE WHEN NOT s.opening THEN (SELECT extract(epoch FROM min(o.start_at))::bigint FROM jobs_segment o
                                      WHERE o.attempt = s.attempt) END AS began
FROM jobs_segment s
WHERE cluster = %(cluster)s AND end_at > to_timestamp(%(start)s) AND start_at < to_timestamp(%(end)s)
    AND (%(accounts)s::text[] IS NULL OR account = ANY(%(accounts)s))
-- step: those that run
SELECT account, user_id, partition, extract(epoch FROM start_at)::bigint, NULL::bigint, cpus, gpus, nodes,
       CASE WHEN NOT s.opening THEN (SELECT extract(epoch FROM min(o.start_at))::bigint FROM jobs_segment o
                                      WHERE o.attempt = s.attempt) END AS began
FROM jobs_segment s
WHERE cluster = %(cluster)s AND end_at IS NULL AND start_at < to_timestamp(%(end)s)
    AND (%(accounts)s::text[] IS NULL OR account = ANY(%(accounts)s))
-- step: what accounts used on the days of a window, each decayed to its own end
SELECT account, day, sum(used) FROM jobs_balance
WHERE cluster = %(cluster)s AND day >= %(day)s AND day < %(until)s AND account = ANY(%(accounts)s)
GROUP BY account, day
