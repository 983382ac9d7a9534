"""Which weights of token classes hold: those of the version, of its model, or the usual ones."""

from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction

from control.metering.cost.rules import WEIGHTS, Weights
from control.models import TokenWeights, Version


def in_force(at: datetime) -> Mapping[int, Weights]:
    """Version → weights that were valid by then; a version without is weighed as usual."""
    rows = TokenWeights.objects.filter(valid_from__lte=at).order_by("valid_from", "pk")
    of_version, of_model = {}, {}
    for row in rows:
        weights = Weights(Fraction(row.cached_input), Fraction(row.output))
        if row.version_id:
            of_version[row.version_id] = weights
        else:
            of_model[row.model_id] = weights
    if not of_version and not of_model:
        return {}
    versions = Version.objects.values_list("pk", "model_id")
    return {pk: of_version.get(pk) or of_model.get(model_id, WEIGHTS) for pk, model_id in versions}
