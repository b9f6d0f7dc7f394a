"""Read models of what it cost. Disposable: a rebuild from the log makes the same rows."""

from __future__ import annotations

from django.db import models


class Price(models.Model):
    """What one hour of one unit of a resource class costs, [from_day, to_day) at the site's midnights.

    micro_per_hour: micro-units of `currency` (10^-6). No row for a day means no price: a gap, never zero.
    """

    pk = models.CompositePrimaryKey("resource_class", "from_day")
    resource_class = models.TextField()
    from_day = models.DateField()
    to_day = models.DateField()
    currency = models.TextField()
    micro_per_hour = models.DecimalField(max_digits=38, decimal_places=0)
    card = models.TextField()

    class Meta:
        db_table = "billing_price"
