"""What a pattern cannot say of a secret: whether it is one or only stands for one. And the table of all validators.

Every validator takes the value as matched and answers True where it is a finding. They are pure, and a rule names them
in `check`.
"""

import base64
import binascii
import re
from collections.abc import Callable
from math import log2

import orjson
import re2

from trace_flywheel.redaction.personal import (
    card,
    cn_id,
    cpf,
    date,
    email,
    es_dni,
    iban,
    luhn,
    mac,
    nino,
    phone_intl,
    phone_us,
    public_ip,
    ssn,
    verhoeff,
)
from trace_flywheel.redaction.words import improbable

MARK = re.compile(r"\[REDACTED|\*\*\*|<redacted|\[(?:EMAIL|PHONE|SECRET|TOKEN|NAME)_\d", re.IGNORECASE)
"""A mark of an earlier redaction, ours or another's."""
STAND_IN = re2.compile(
    r"(?i)example|placeholder|redacted|change[_-]?me|dummy|sample|your[_-]|my[_-]?(?:secret|token|key|pass)|insert|"
    r"replace[_-]?(?:me|with)|not[_-]?(?:a[_-]?)?real|\.\.\.|xxxx|0123456789|1234567890|abcdefghij|\*\*\*|<|>|\$\{|\{\{"
)
"""Words of values that stand for a secret in documentation."""
FILLER = re.compile(r"[xX*.•_\-0]*")


def entropy(value: str) -> float:
    """Shannon entropy in bits per character."""
    n = len(value)
    shares = [value.count(c) / n for c in dict.fromkeys(value)]
    return -sum([share * log2(share) for share in shares])


def real(value: str) -> bool:
    """Not a documentation stand-in: no filler such as `xxxx`, no word such as EXAMPLE, no mark of redaction."""
    tail = re.sub(r"^[A-Za-z]{2,10}(?:[_-][a-z0-9]{1,5})?[_\-.]", "", value)
    return not STAND_IN.search(value) and not FILLER.fullmatch(tail) and not MARK.search(value)


def mixed(value: str) -> bool:
    """Letters and digits, or letters of changing case, as random tokens have and words do not."""
    if re.search(r"\d", value) and re.search(r"[A-Za-z]", value):
        return True
    return len(re.findall(r"[a-z][A-Z]", value)) >= 3


def upper(value: str) -> bool:
    """An upper-case letter: tells `sk-proj-` keys from names like `sk-proj-refactor-auth-module`."""
    return any(c.isupper() for c in value)


def random(value: str) -> bool:
    """At least 3 bits per character over 16 or more characters, letters and digits both."""
    return len(value) >= 16 and mixed(value) and entropy(value) >= 3.0


def password(value: str) -> bool:
    """A password inside a URL or a connection string: no variable, no ordinary stand-in."""
    plain = value.lower().strip("'\"")
    return (
        len(value) >= 4
        and not re.match(r"[$%{<(*\[]", value)
        and plain not in _ORDINARY
        and not FILLER.fullmatch(value)
    )


def no_name(value: str) -> bool:
    """More than a word: a digit, a symbol, or letters that come by chance."""
    return not value.isdigit() and (bool(re.search(r"\d|[^\w\s.,/:-]", value)) or improbable(value))


_ORDINARY_WORDS = """
    password passwd pass pwd secret changeme change_me user username admin root guest test tests postgres
    mysql redis mongo rabbitmq token key none null your_password yourpassword mypassword mysecretpassword
    dbpassword db_password host hostname port tiger
"""
_ORDINARY = frozenset(_ORDINARY_WORDS.split())


def not_filler(value: str) -> bool:
    """A key block with a body, not one that shows where the body would stand."""
    return bool(re.search(r"[A-Za-z0-9+/=]{16,}", re.sub(r"-----[A-Z0-9 ]*-----", "", value))) and not MARK.search(
        value
    )


def not_uuid(value: str) -> bool:
    """UUIDs are identifiers, not secrets, unless a rule says otherwise."""
    return not re.fullmatch(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", value)


def header_value(value: str) -> bool:
    """What follows `Authorization:`: 8 or more characters with a digit; no dotted or snake_case name."""
    return mixed(value) and not re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[a-z]+(?:[_-][a-z0-9]+)+", value)


def jwt(value: str) -> bool:
    """A JOSE header that decodes to a JSON object with `alg` or `typ`."""
    head = value.split(".", 1)[0]
    try:
        header = orjson.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (binascii.Error, ValueError):
        return False
    return isinstance(header, dict) and bool(header.keys() & {"alg", "typ", "enc", "kid"})


def basic_auth(value: str) -> bool:
    """Base64 of `user:password` in printable text; the password no stand-in."""
    try:
        text = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in text and text.isprintable() and real(text)


def encoded_token(value: str) -> bool:
    """Base64 of one word in printable letters and digits: a token whose prefix the pattern has seen."""
    text = _decoded(value).removesuffix(b"\n")
    if len(text) < 12 or not re.fullmatch(rb"[!-~]+", text):
        return False
    return mixed(text.decode()) and real(text.decode())


def encoded_private_key(value: str) -> bool:
    """Base64, on one line or over several, of a private key's block."""
    return b"PRIVATE KEY" in _decoded(re.sub(r"\\+[rn]|[^A-Za-z0-9+/]", "", value)[:400])


def _decoded(value: str) -> bytes:
    """What base64 holds; nothing where it is none."""
    digits = value.rstrip("=")
    try:
        return base64.b64decode(digits + "=" * (-len(digits) % 4))
    except (binascii.Error, ValueError):
        return b""


VALIDATORS: dict[str, Callable[[str], bool]] = {
    check.__name__: check
    for check in (
        *(real, mixed, upper, random, no_name, jwt, basic_auth, password, not_filler, not_uuid, header_value),
        *(encoded_token, encoded_private_key),
        *(luhn, card, iban, ssn, phone_us, phone_intl, email, verhoeff, cpf, cn_id, es_dni, nino, public_ip, mac, date),
    )
}
"""By the name that rules use in `check`."""
