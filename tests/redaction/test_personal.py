"""Check digits and reserved ranges, by the right value written down."""

import pytest

from trace_flywheel.redaction import personal


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        ("luhn", "79927398713", "79927398714"),
        ("card", "4111 1111 1111 1111", "4111 1111 1111 1112"),
        ("card", "378282246310005", "3782822463100050"),
        ("card", "2223003122003222", "9111111111111111"),
        ("iban", "GB82 WEST 1234 5698 7654 32", "GB83WEST12345698765432"),
        ("iban", "DE89370400440532013000", "DE8937040044053201300"),
        ("ssn", "078-05-1120", "666-12-3456"),
        ("ssn", "219-09-9999", "900-12-3456"),
        ("ssn", "123-45-6789", "123-00-6789"),
        ("phone_us", "1-800-937-8997", "911-555-0100"),
        ("phone_intl", "+44 7700 900429", "+999 1234 5678"),
        ("verhoeff", "9615 7885 7796", "9615 7885 7795"),
        ("cpf", "529.982.247-25", "111.111.111-11"),
        ("cn_id", "11010519491231002X", "110105194912310021"),
        ("es_dni", "12345678Z", "12345678A"),
        ("es_dni", "X1234567L", "X1234567A"),
        ("nino", "AB123456C", "GB123456C"),
        ("public_ip", "203.0.113.7", "10.1.2.3"),
        ("public_ip", "2001:db8::1", "fe80::1"),
        ("public_ip", "93.184.216.34", "1.11.1.1"),
        ("mac", "5d:21:c2:21:18:02", "ff:ff:ff:ff:ff:ff"),
        ("date", "1957-07-14", "1957-13-32"),
        ("date", "31/12/1999", "32/12/1999"),
        ("email", "a.b+c@contoso.co.uk", "a@example.org"),
        ("email", "me@gmail.com", "noreply@gmail.com"),
        ("email", "me@contoso.dev", "icon@2x.png"),
        ("email", "me@contoso.de", "main@module.py"),
    ],
)
def test_validators(check: str, good: str, bad: str) -> None:
    validate = getattr(personal, check)
    assert validate(good)
    assert not validate(bad)
