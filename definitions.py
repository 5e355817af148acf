"""The Dagster code location of a checkout: hands on the definitions of the package."""

from trace_flywheel.orchestration.definitions import defs

__all__ = ["defs"]
