"""What one service.yaml asks for, read and checked, each entry with its place in the file."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from control.catalog.advice.rules import VariantWanted
from control.catalog.rules import VersionWanted
from control.checks import Problem
from control.fleet.rules import DeploymentWanted
from control.metering.cost.wanted import CostPoolWanted, CostRateWanted, TokenWeightsWanted
from control.metering.exports.wanted import ScheduleWanted
from control.metering.invoices.wanted import TermsWanted
from control.metering.prices.wanted import PriceWanted
from control.routes.wanted import RouteWanted
from control.tenancy.rules import KeyWanted, ProjectWanted, TenantWanted


@dataclass(frozen=True)
class KeyEntry:
    """A key of the file; its secret is in the environment, or made once."""

    wanted: KeyWanted
    secret_env: str | None = None
    rotate: bool = False


@dataclass(frozen=True)
class VersionEntry:
    model: str
    name: str
    content: VersionWanted
    api_key_env: str | None = None


@dataclass(frozen=True)
class Service:
    """The file. `paths` leads from a subject ("tenant acme") to its place, `lines` on to lines."""

    tenants: tuple[TenantWanted, ...] = ()
    projects: tuple[ProjectWanted, ...] = ()
    keys: tuple[KeyEntry, ...] = ()
    models: tuple[str, ...] = ()
    versions: tuple[VersionEntry, ...] = ()
    deployments: tuple[DeploymentWanted, ...] = ()
    routes: tuple[RouteWanted, ...] = ()
    prices: tuple[PriceWanted, ...] = ()
    cost_rates: tuple[CostRateWanted, ...] = ()
    cost_pools: tuple[CostPoolWanted, ...] = ()
    token_weights: tuple[TokenWeightsWanted, ...] = ()
    variants: tuple[VariantWanted, ...] = ()
    billing: TermsWanted | None = None
    exports: tuple[ScheduleWanted, ...] = ()
    paths: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Misfit:
    """One thing wrong with the file, where."""

    line: int
    problem: Problem

    def __str__(self) -> str:
        return f"{self.line}: {self.problem}"


class BadFile(Exception):
    """The file is refused; every misfit with its line."""

    def __init__(self, found: Iterable[Misfit]):
        self.misfits = tuple(sorted(found, key=lambda misfit: misfit.line))
        super().__init__("\n".join(str(misfit) for misfit in self.misfits))


def line_of(lines: dict[str, int], path: str) -> int:
    """The line of a field; of what it would stand in, if the file does not name it."""
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path, 1)


def misfits(lines: dict[str, int], problems: Iterable[Problem]) -> list[Misfit]:
    return [Misfit(line_of(lines, problem.field), problem) for problem in problems]
