"""A secret, or what only stands for one."""

import base64

import pytest

from trace_flywheel.redaction.validators import VALIDATORS


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        ("real", "ghp_" + "a" * 36, "ghp_" + "x" * 36),
        ("real", "q7T-9", "your-api-key"),
        ("real", "9f8e7d", "[REDACTED:secret:1]"),
        ("real", "Zk3", "***REDACTED***"),
        ("mixed", "abc1", "refactor-auth-module"),
        ("mixed", "fTZJrKaMGooM", "TransformerModel"),
        ("upper", "abCd", "refactor-auth"),
        ("random", "a1b2c3d4e5f6g7h8", "aaaaaaaa1aaaaaaaa"),
        ("jwt", "eyJhbGciOiJIUzI1NiJ9.e30.sig", "eyJub3QiOiJhIGpvc2UgaGVhZGVyIn0.e30.sig"),
        ("basic_auth", base64.b64encode(b"svc:pw9!x").decode(), base64.b64encode(b"no colon here").decode()),
        ("password", "tiger42", "changeme"),
        ("password", "S3cret!", "${DB_PASSWORD}"),
        ("not_filler", "-----BEGIN X-----\n" + "QUJD" * 8, "-----BEGIN X-----\n..."),
        ("not_uuid", "a" * 32, "77a196b4-b1a0-44ec-b6fb-304517a2b845"),
        ("header_value", "Ab3dEf9h", "self.headers.token"),
    ],
)
def test_validators(check: str, good: str, bad: str) -> None:
    assert VALIDATORS[check](good)
    assert not VALIDATORS[check](bad)
