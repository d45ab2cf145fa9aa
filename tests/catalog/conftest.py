"""A fast place for installations."""

from tests.walk.conftest import place as place
