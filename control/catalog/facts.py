"""What can be served: models and their versions, as pages read them."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F

from control.models import CatalogModel, Deployment, Version
from control.states import DeploymentState
from engines.sources import told

ROWS_MAX = 1000


@dataclass(frozen=True)
class VersionFacts:
    name: str
    engine_kind: str
    engine_version: str
    engine_url: str  # of an external engine
    source: tuple[tuple[str, str], ...]
    arguments: tuple[tuple[str, object], ...]
    digest: str
    created_at: datetime
    archived_at: datetime | None
    deployments: tuple[str, ...]  # that want it now


@dataclass(frozen=True)
class ModelFacts:
    name: str
    created_at: datetime
    archived_at: datetime | None
    versions: tuple[VersionFacts, ...]


def models(*, first: int = 0, count: int = ROWS_MAX) -> list[ModelFacts]:
    """Archived ones stay visible, at the end."""
    rows = CatalogModel.objects.order_by(F("archived_at").asc(nulls_first=True), "name")
    found = list(rows[first : first + min(count, ROWS_MAX)])
    ids = [model.pk for model in found]
    users = defaultdict(list)
    wanted = Deployment.objects.exclude(state=DeploymentState.ARCHIVED).order_by("name")
    for name, version_id in wanted.values_list("name", "version_id"):
        users[version_id].append(name)
    versions = defaultdict(list)
    for version in Version.objects.filter(model__in=ids).order_by("-created_at", "-pk"):
        versions[version.model_id].append(_version(version, tuple(users[version.pk])))
    return [
        ModelFacts(model.name, model.created_at, model.archived_at, tuple(versions[model.pk]))
        for model in found
    ]


def exists(name: str) -> bool:
    return CatalogModel.objects.filter(name=name).exists()


def _version(version: Version, deployments: tuple[str, ...]) -> VersionFacts:
    return VersionFacts(
        name=version.name,
        engine_kind=version.engine.get("kind", ""),
        engine_version=version.engine.get("version", ""),
        engine_url=version.engine.get("url", ""),
        source=told(version.source or {}),
        arguments=tuple(version.arguments.items()),
        digest=version.digest,
        created_at=version.created_at,
        archived_at=version.archived_at,
        deployments=deployments,
    )
