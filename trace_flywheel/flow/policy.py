"""The redaction policy that settings ask for: rule files read and tried, allowed values, the home's fingerprint key.

The key lies in `<home>/redaction.key`, 0600, made on first need. It is a secret of its own: with it a guessed value can
be tested against a report. It enters no hash and no dataset.
"""

import os
import secrets
from pathlib import Path

from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.redaction.policy import Allow, Policy, check_allow, read_rules
from trace_flywheel.settings import Settings

KEY_FILE = "redaction.key"


def policy_of(settings: Settings, *, pii: str | None = None, told: bool = False) -> Policy:
    """The policy in force; `pii` instead of the settings' profile, `told` with the key that reports need.

    Raises `RuleError` for rule files and allowed values that cannot be used.
    """
    asked = settings.redaction
    allow = tuple(Allow(entry.reason, entry.pattern, entry.fingerprint) for entry in asked.allow)
    check_allow(allow)
    key = key_of(settings.home) if told or any(entry.fingerprint for entry in allow) else b""
    return Policy(pii or asked.pii, read_rules(asked.rules), allow, key, asked.second_gate)


def key_of(home: Path) -> bytes:
    """The home's key, made where there is none."""
    path = home / KEY_FILE
    if not path.exists():
        home.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:  # another process was faster
            pass
        else:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_hex(32).encode())
    key = path.read_bytes()
    if len(key) < 32:
        raise FlywheelError(f"{path}: no key; remove it, a new one is made (fingerprints in redaction.allow end)")
    return key
