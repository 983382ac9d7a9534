"""What everyone would pay for a token, beside what a tenant does."""

from datetime import datetime

from django.db.models import Q

from control.models import Price


class ListPrices:
    """What everyone pays, beside a tenant's own price; a price of everyone's is its own list."""

    def __init__(self, tenant_id: int):
        own = Price.objects.filter(book__tenant_id=tenant_id).select_related("book")
        self.own = {price.pk: price for price in own}
        models = {price.model_id for price in self.own.values()}
        listed = Price.objects.filter(
            Q(book=None) | Q(book__tenant=None), model_id__in=models, tier_from_tokens=0
        )
        self.listed = list(listed.select_related("book").order_by("-valid_from", "-pk"))

    def of(self, price_id: int, token_class: str, priority: str, at: datetime, instead: int) -> int:
        own = self.own.get(price_id)
        if own is None:
            return instead
        able = [
            price
            for price in self.listed
            if (price.model_id, price.currency) == (own.model_id, own.currency)
            and price.priority in ("", priority)
            and price.valid_from <= at
            and (
                price.book is None or price.book.valid_until is None or at < price.book.valid_until
            )
        ]
        if not able:
            return instead
        best = max(able, key=lambda price: (price.valid_from, price.priority != "", price.pk))
        if token_class == "reasoning" and best.reasoning_pico is None:
            return best.output_pico
        return getattr(best, f"{token_class}_pico")
