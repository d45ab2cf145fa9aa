"""A fast place for installations."""

from tests.engine.conftest import place as place
