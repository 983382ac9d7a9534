"""Who invoices, offers and hosts, as operators ask for it; what is wrong with that. Pure."""

from dataclasses import dataclass

from control import checks

NAME_CHARACTERS_MAX = 160
HOURS_MAX = 24 * 31


@dataclass(frozen=True)
class TermsWanted:
    """What an operator asks for; the provider and the host are the issuer, unless named."""

    issuer: str
    provider: str = ""
    host: str = ""
    region_id: str = ""
    region_name: str = ""
    close_after_hours: int | None = None

    @property
    def stored(self) -> dict[str, str | int | None]:
        own = {name: getattr(self, name) or self.issuer for name in ("provider", "host")}
        return vars(self) | own


def problems(wanted: TermsWanted) -> list[checks.Problem]:
    found = []
    if not wanted.issuer.strip():
        found.append(checks.Problem("issuer", "is required: who invoices?"))
    for name in ("issuer", "provider", "host", "region_id", "region_name"):
        longest = 64 if name == "region_id" else NAME_CHARACTERS_MAX
        found += checks.text(name, getattr(wanted, name), longest)
    return found + checks.whole("close_after_hours", wanted.close_after_hours, 0, HOURS_MAX)
