"""What a pattern cannot say of personal data: check digits, number plans, reserved ranges and domains.

Every validator takes the value as matched and answers True where it is a finding.
"""

import ipaddress
import re

from trace_flywheel.redaction.countries import CALLING_CODES, IBAN_LENGTHS

_DIGIT = re.compile("[0-9]")


def digits_of(value: str) -> list[int]:
    """The decimal digits in it."""
    return list(map(int, _DIGIT.findall(value)))


def luhn(value: str) -> bool:
    """ISO/IEC 7812 check digit."""
    digits = digits_of(value)
    total = sum(digits[-1::-2]) + sum(sum(divmod(2 * d, 10)) for d in digits[-2::-2])
    return total % 10 == 0 and len(set(digits)) > 1


def card(value: str) -> bool:
    """An issuer's prefix, its length, and Luhn."""
    text = "".join(_DIGIT.findall(value))
    first2, first4 = int(text[:2]), int(text[:4])
    sizes: tuple[int, ...] = ()
    if text[0] == "4":
        sizes = (13, 16, 19)
    elif 51 <= first2 <= 55 or 2221 <= first4 <= 2720:
        sizes = (16,)
    elif first2 in (34, 37):
        sizes = (15,)
    elif first2 in (36, 38) or 300 <= int(text[:3]) <= 305:
        sizes = (14,)
    elif first4 == 6011 or first2 == 65 or 644 <= int(text[:3]) <= 649 or first2 == 62:
        sizes = (16, 19)
    elif 3528 <= first4 <= 3589:
        sizes = (16,)
    return len(text) in sizes and luhn(text)


def iban(value: str) -> bool:
    """ISO 13616: the country's length and mod 97."""
    text = re.sub(r"[ -]", "", value)
    if IBAN_LENGTHS.get(text[:2]) != len(text):
        return False
    return int("".join(str(int(c, 36)) for c in text[4:] + text[:4])) % 97 == 1


def ssn(value: str) -> bool:
    """US social security number: area not 000, 666 or 9xx, group not 00, serial not 0000."""
    d = "".join(map(str, digits_of(value)))
    return len(d) == 9 and d[:3] not in ("000", "666") and d[0] != "9" and d[3:5] != "00" and d[5:] != "0000"


def phone_us(value: str) -> bool:
    """North American numbering plan: area and exchange start at 2 and are no N11 service code."""
    d = "".join(map(str, digits_of(value)))
    d = d[1:] if len(d) == 11 and d[0] == "1" else d
    return len(d) == 10 and d[0] >= "2" and d[3] >= "2" and d[1:3] != "11" and d[4:6] != "11" and d[1] != "9"


def phone_intl(value: str) -> bool:
    """E.164: a known calling code, 8 to 15 digits in all; no decimal number."""
    d = "".join(map(str, digits_of(value)))
    known = any(d[:n] in CALLING_CODES for n in (1, 2, 3)) and not re.fullmatch(r"\+\d{4,}\.\d+", value)
    return known and 8 <= len(d) <= 15 and len(set(d)) > 2 and (d[0] != "1" or phone_us(d))


_MAIL_TOP_WORDS = """
    com org net edu gov mil int info biz name pro mobi asia coop jobs museum travel app dev page cloud online
    site store shop tech xyz club live life world today news blog email group agency digital network systems
    solutions services software studio design team work works wiki zone space website media social academy
    company consulting center capital finance financial bank insurance health healthcare clinic care legal law
    energy global international foundation university school science
"""
_MAIL_TOP = frozenset(_MAIL_TOP_WORDS.split())
_FILES = frozenset({"py", "md", "rs", "sh", "so", "js", "ts", "cc", "pl", "ps", "gz"})
"""Country domains that are also file endings."""
_RESERVED_MAIL = re.compile(
    r"(?:^|[@.])(?:example|test|invalid|localhost|local)(?:\.[a-z]{2,3}){0,2}$|@(?:[\w-]+\.)*example\.|"
    r"^(?:no-?_?reply|do-?not-?reply|git|hg|svn|mailer-daemon|openhands|swe-agent|claude|copilot|codex|bot)(?:\+[\w-]+)?@|"
    r"\[bot\]@|@users\.noreply\.|@noreply\.|^(?:user(?:name)?|you|your[._-]?(?:name|email)|name|email|someone|first\.last|"
    r"john\.?doe|jane\.?doe|foo|bar|test|password|"
    r"local_part|xx+|a|b|c|abc)@(?:domain|email|company|mail|yourdomain|yourcompany|mydomain|foo|bar|site|test|host|server|"
    r"b|d|xyz)\.|^xxx+@",
)
"""Of an address in lower case."""


def email(value: str) -> bool:
    """An address under a real top-level domain; reserved domains, robots and `user@host:path` are none."""
    local, _, domain = value.rpartition("@")
    labels = domain.lower().split(".")
    top = labels[-1]
    if (
        ":" in domain
        or local.startswith(".")
        or not any(map(str.isalnum, local))
        or domain.startswith("-")
        or labels[0].isdigit()
    ):
        return False
    if not (len(top) == 2 and top not in _FILES) and top not in _MAIL_TOP:
        return False
    return not _RESERVED_MAIL.search(value.lower())


def verhoeff(value: str) -> bool:
    """Verhoeff check digit (Aadhaar)."""
    check = 0
    for i, digit in enumerate(reversed(digits_of(value))):
        check = _D5[check][_permuted(i, digit)]
    return check == 0


_D5 = [
    [
        (a + b) % 5 if a < 5 and b < 5 else (a + b) % 5 + 5 if a < 5 else (a - b) % 5 + 5 if b < 5 else (a - b) % 5
        for b in range(10)
    ]
    for a in range(10)
]
"""Multiplication of the dihedral group D5."""
_P = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)


def _permuted(times: int, digit: int) -> int:
    for _ in range(times % 8):
        digit = _P[digit]
    return digit


def cpf(value: str) -> bool:
    """Brazilian tax number: two check digits mod 11."""
    d = digits_of(value)
    if len(d) != 11 or len(set(d)) == 1:
        return False
    return all((sum((n + 1 - i) * d[i] for i in range(n)) * 10 % 11) % 10 == d[n] for n in (9, 10))


def cn_id(value: str) -> bool:
    """GB 11643: 17 digits and a check character mod 11, with a plausible birth date."""
    if not ("1900" <= value[6:10] <= "2029" and "01" <= value[10:12] <= "12" and "01" <= value[12:14] <= "31"):
        return False
    total = sum(int(c) * (2 ** (17 - i) % 11) for i, c in enumerate(value[:17]))
    return "10X98765432"[total % 11] == value[17].upper()


def es_dni(value: str) -> bool:
    """Spanish DNI/NIE: letter mod 23."""
    number = value[:-1].translate(str.maketrans("XYZxyz", "012012")).replace("-", "")
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == value[-1].upper()


def nino(value: str) -> bool:
    """UK national insurance number: prefixes never allocated are out."""
    return value[:2].upper() not in ("BG", "GB", "NK", "KN", "NT", "ZZ") and value[1].upper() != "O"


VERSION_LIKE = 32
"""Four numbers all below this are taken for a version."""


def public_ip(value: str) -> bool:
    """A public address of a host; documentation ranges count, they stand where a real one would."""
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        if max(address.packed) < VERSION_LIKE or not address.packed[-1]:
            return False
        documentation = any(address in net for net in _DOCUMENTATION)
        return documentation or (address.is_global and not address.is_multicast and value not in _WELL_KNOWN)
    return (address.is_global or address in _DOCUMENTATION6) and not address.is_multicast and ":" in value.strip(":")


_DOCUMENTATION = [ipaddress.IPv4Network(n) for n in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")]
_DOCUMENTATION6 = ipaddress.IPv6Network("2001:db8::/32")
_WELL_KNOWN = frozenset({"1.1.1.1", "1.0.0.1", "8.8.8.8", "8.8.4.4", "9.9.9.9", "1.2.3.4", "4.3.2.1"})


def mac(value: str) -> bool:
    """Not the zero, the broadcast or a documentation address."""
    hexes = re.sub(r"[^0-9a-fA-F]", "", value).lower()
    return hexes not in ("0" * 12, "f" * 12) and not hexes.startswith("00005e00") and len(set(hexes)) > 2


def date(value: str) -> bool:
    """Month and day in range in one of the usual orders, year 1900 to 2029."""
    parts = [int(p) for p in re.split(r"\D+", value)]
    if len(parts) != 3:
        return False
    year, first, second = (parts[0], *parts[1:]) if parts[0] > 31 else (parts[2], *parts[:2])
    return 1900 <= year <= 2029 and min(first, second) in range(1, 13) and max(first, second) in range(1, 32)
