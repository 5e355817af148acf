"""What every section of the settings is, and the error that names a setting that cannot be used."""

from pydantic import BaseModel, ConfigDict

from trace_flywheel.records.errors import UsageError


class SettingsError(UsageError, ValueError):
    """A setting that cannot be used. The text names the field, the fault and where it was set."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
