"""The rules as data: one TOML file a family, read by `redaction.rules`. The format stands there."""
