"""Django's `path`, and `<name:…>` in it: a name as `control.checks` lets it be."""

from django.urls import path, register_converter

__all__ = ["path"]


class Name:
    """Of a model, a version, a call: what can be none is 404, and the database is not asked."""

    regex = "[a-zA-Z0-9][a-zA-Z0-9._-]*"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(Name, "name")
