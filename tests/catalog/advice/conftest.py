"""A tenant with a key, a priced version, and calls of theirs."""

from tests.metering.conftest import house

__all__ = ["house"]
