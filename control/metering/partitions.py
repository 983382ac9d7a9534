"""Months of usage events, made before their first call comes."""

from datetime import datetime

from django.db import connection

from control.metering.months import following

AHEAD = 2
MAKE = "SELECT weir_make_usage_month(month) FROM unnest(%s::date[]) month"


def make_coming(at: datetime) -> None:
    """This month and the next ones; whoever stores makes what is missing all the same."""
    months = [at.date().replace(day=1)]
    for _ in range(AHEAD):
        months.append(following(months[-1]))
    with connection.cursor() as cursor:
        cursor.execute(MAKE, [months])
