"""A fast folder for installations."""

from tests.engine.conftest import place as place
