"""Of a version: where its weights come from, and what an owner allows of them."""

from control.apply.fields import Fields

PACKAGE = ("pypi", "release", "sha256")
MEMBERS = (*PACKAGE, "huggingface", "modelscope", "revision", "s3", "path")


def source(fields: Fields) -> dict | None:
    there = fields.has("source")
    inner = fields.mapping("source")
    found: dict = _texts(inner, MEMBERS)
    if parts := [_package(part) for part in inner.items("parts")]:
        found["parts"] = parts
    inner.end()
    return found if there else None


def unsafe(fields: Fields) -> dict[str, str] | None:
    """Names are not ours to know here: the catalogue says which there are."""
    if not fields.has("unsafe"):
        fields.mapping("unsafe")
        return None
    inner = fields.mapping("unsafe")
    return {name: inner.text(name, "") or "" for name in list(inner.members)}


def _package(fields: Fields) -> dict:
    found = _texts(fields, PACKAGE)
    fields.end()
    return found


def _texts(fields: Fields, names: tuple[str, ...]) -> dict:
    values = {name: fields.text(name, None) for name in names}
    return {name: value for name, value in values.items() if value is not None}
