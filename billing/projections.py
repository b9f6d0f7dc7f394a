"""From the log to dated prices."""

from __future__ import annotations

from typing import Final

from billing.models import Price
from events.projector import Batch, Group

TYPES: Final = ("rate.published", "rate.withdrawn")

# Of two statements with one class and day the later position wins; each holds until the next day stated.
PRICES: Final = """
DELETE FROM billing_price p USING touched t WHERE 'rate/' || p.resource_class = t.stream AND t.known;
INSERT INTO billing_price (resource_class, from_day, to_day, currency, micro_per_hour, card)
SELECT resource_class, from_day, to_day, currency, micro_per_hour, card
FROM (
    SELECT r.*, coalesce(lead(from_day) OVER (PARTITION BY resource_class ORDER BY from_day), date '9999-12-31')
           AS to_day
    FROM (
        SELECT DISTINCT ON (e.data->>'resource_class', e.data->>'from_day') e.type,
               e.data->>'resource_class' AS resource_class, (e.data->>'from_day')::date AS from_day,
               e.data->>'currency' AS currency, (e.data->>'micro_per_hour')::numeric AS micro_per_hour,
               coalesce(e.data->>'card', '') AS card
        FROM touched t JOIN events_event e ON e.shard = {shard} AND e.stream = t.stream
        WHERE e.type IN ('rate.published', 'rate.withdrawn') AND e.position <= {end} AND {visible}
        ORDER BY e.data->>'resource_class', e.data->>'from_day', e.position DESC
    ) r
) x
WHERE type = 'rate.published'
"""


def apply(batch: Batch) -> None:
    """The prices of each touched resource class, folded anew."""
    if not batch.has(TYPES):
        return
    batch.touch_streams("touched", TYPES)
    batch.cursor.execute(PRICES.format(shard=batch.shard, end=batch.end, visible=batch.visible()))


GROUP: Final = Group(name="billing", layer=2, version=1, tables=(Price,), apply=apply, money=True)
