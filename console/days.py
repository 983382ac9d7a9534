"""Days that a page is asked for, from one to another, both whole, in UTC."""

from datetime import UTC, date, datetime, time, timedelta

from django import forms

DAYS_MAX = 400


class DaysForm(forms.Form):
    since = forms.DateField(required=False)
    until = forms.DateField(required=False)

    def clean(self) -> dict:
        given = super().clean()
        since, until = given.get("since"), given.get("until")
        if since and until and not since <= until:
            self.add_error("until", "The last day is before the first.")
        if since and until and until - since > timedelta(days=DAYS_MAX):
            self.add_error("until", f"At most {DAYS_MAX} days at once.")
        return given


def span(since: date, until: date) -> tuple[datetime, datetime]:
    """From the first day's midnight to that after the last."""
    return _midnight(since), _midnight(until + timedelta(days=1))


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
