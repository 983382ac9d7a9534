"""What operators say of cost: rates of devices, policies of pools, weights of tokens. Checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from control import checks
from control.metering.cost.allocation import IdlePolicy
from control.metering.rules import amount_of, currency_of

MONTHS_MAX = 240
PLACES_OF_MEASURES = 3  # watts and ratios are stored so
OWNED = ("price", "residual", "months", "finance_per_month")
_NUMBERS = {  # what is not named costs nothing; without a draw it is measured or assumed
    "hardware_per_hour": "0",
    "power_watts": None,
    "load_factor": "1",
    "host_watts": "0",
    "power_per_kwh": "0",
    "pue": "1",
    "engineering_per_hour": "0",
    "engineering_per_month": "0",
}
NUMBERS = tuple(_NUMBERS)
THOUSANDTHS = ("power_watts", "load_factor", "host_watts", "pue")


@dataclass(frozen=True)
class CostRateWanted:
    """What a device costs; made by `cost_rate_wanted`, which checks it."""

    device: str
    currency: str
    hardware_per_hour: Decimal
    power_watts: Decimal | None
    power_per_kwh: Decimal
    pue: Decimal
    engineering_per_hour: Decimal
    pool: str = ""
    price: Decimal = Decimal(0)
    residual: Decimal = Decimal(0)
    months: int = 0
    finance_per_month: Decimal = Decimal(0)
    load_factor: Decimal = Decimal(1)
    host_watts: Decimal = Decimal(0)
    engineering_per_month: Decimal = Decimal(0)

    @property
    def subject(self) -> str:
        return f"{self.device} in {self.pool}" if self.pool else self.device


@dataclass(frozen=True)
class CostPoolWanted:
    """Who pays for what a pool's devices did not work."""

    pool: str
    idle: str
    practical_ratio: Decimal


@dataclass(frozen=True)
class TokenWeightsWanted:
    """Device time of token classes beside one of uncached input, of a model or one version."""

    model: str
    version: str
    cached_input: Decimal
    output: Decimal

    @property
    def subject(self) -> str:
        return f"{self.model}:{self.version}" if self.version else self.model


def cost_rate_wanted(
    device: str,
    currency: str,
    numbers: Mapping[str, object],
    *,
    pool: str = "",
    owned: Mapping[str, object] | None = None,
) -> CostRateWanted:
    """Check and convert a cost rate. What is not named costs nothing; PUE is then 1."""
    for name in sorted(set(numbers) - set(_NUMBERS)):
        raise checks.refuse(name, f"is unknown: use {', '.join(_NUMBERS)}")
    if not device or len(device) > 128:
        raise checks.refuse("device", 'is a glob of 1 to 128 characters on a name, as in "*"')
    if pool:
        checks.require(checks.name("pool", pool))
    read = {
        name: None if value is None else amount_of(name, value)
        for name, value in (_NUMBERS | dict(numbers)).items()
    }
    if read["pue"] < 1:
        raise checks.refuse("pue", "is at least 1: the room uses what its machines use")
    if not 0 < read["load_factor"] <= 1:
        raise checks.refuse("load_factor", "is more than 0 and at most 1: of power_watts")
    if owned and read["hardware_per_hour"]:
        raise checks.refuse("owned", "a device is owned or rented: leave out hardware_per_hour")
    return CostRateWanted(
        device=device, currency=currency_of(currency), pool=pool, **read, **_owned(owned)
    )


def _owned(given: Mapping[str, object] | None) -> dict[str, object]:
    if not given:
        return {}
    for name in ("price", "months"):
        if given.get(name) is None:
            raise checks.refuse(f"owned.{name}", "is required: an owned device is written off")
    months = given["months"]
    if not isinstance(months, int) or not 1 <= months <= MONTHS_MAX:
        raise checks.refuse("owned.months", f"is a whole number of months, 1 to {MONTHS_MAX}")
    amounts = {
        name: amount_of(f"owned.{name}", given.get(name) or "0")
        for name in OWNED
        if name != "months"
    }
    if amounts["residual"] > amounts["price"]:
        raise checks.refuse("owned.residual", "is at most the price: it is what is left of it")
    return {"months": months, **amounts}


def cost_pool_wanted(pool: str, idle: str, practical_use: object = None) -> CostPoolWanted:
    checks.require(checks.name("pool", pool))
    if idle not in list(IdlePolicy):
        raise checks.refuse("idle", f"{idle!r} is unknown: use {', '.join(IdlePolicy)}")
    ratio = Decimal(1) if practical_use is None else amount_of("practical_use", practical_use)
    if not 0 < ratio <= 1 or ratio != round(ratio, PLACES_OF_MEASURES):
        raise checks.refuse(
            "practical_use", "is a part of the time, as 0.8, with three decimals at most"
        )
    if ratio != 1 and idle != IdlePolicy.UNALLOCATED:
        raise checks.refuse("practical_use", "belongs to idle: unallocated only")
    return CostPoolWanted(pool, idle, ratio)


def token_weights_wanted(
    model: str, version: str, cached_input: object, output: object
) -> TokenWeightsWanted:
    checks.require(checks.model_name("model", model))
    if version:
        checks.require(checks.version_name("version", version))
    weights = TokenWeightsWanted(
        model, version, amount_of("cached_input", cached_input), amount_of("output", output)
    )
    if not weights.output:
        raise checks.refuse("output", "is more than 0: an answer takes time")
    return weights
