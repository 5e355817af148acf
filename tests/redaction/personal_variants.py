"""Random personal data with right check digits, in records, tables and prose; and what only looks like some."""

import json
import random
from collections.abc import Callable, Iterator

from tests.redaction.variants import value_of


def _luhn(digits: str) -> str:
    total = sum(sum(divmod(2 * int(d), 10)) if i % 2 == 0 else int(d) for i, d in enumerate(reversed(digits)))
    return digits + str(-total % 10)


def _card(rng: random.Random) -> str:
    start = rng.choice(("4", "51", "55", "2223", "6011", "65", "3528", "34", "37", "36"))
    size = 15 if start in ("34", "37") else 14 if start == "36" else 16
    number = _luhn(start + value_of(f"{{d{size - 1 - len(start)}}}", rng))
    parts = {16: (4, 8, 12), 15: (4, 10), 14: (4, 10)}[size]
    mark = rng.choice(("", " ", "-"))
    return "".join((mark if i in parts else "") + d for i, d in enumerate(number))


def _iban(rng: random.Random) -> str:
    country, size = rng.choice((("DE", 22), ("GB", 22), ("FR", 27), ("ES", 24), ("CH", 21), ("NL", 18), ("NO", 15)))
    body = value_of(f"{{d{size - 4}}}", rng)
    body = "WEST" + body[4:] if country in ("GB", "NL") else body
    check = 98 - int("".join(str(int(c, 36)) for c in body + country + "00")) % 97
    text = f"{country}{check:02d}{body}"
    return text if rng.random() < 0.5 else " ".join(text[i : i + 4] for i in range(0, size, 4))


def _cpf(rng: random.Random) -> str:
    d = [rng.randrange(10) for _ in range(9)]
    for n in (9, 10):
        d.append(sum((n + 1 - i) * x for i, x in enumerate(d)) * 10 % 11 % 10)
    t = "".join(map(str, d))
    return f"{t[:3]}.{t[3:6]}.{t[6:9]}-{t[9:]}"


def _sin(rng: random.Random) -> str:
    t = _luhn(value_of("9{d7}", rng))
    return rng.choice(("-", " ")).join((t[:3], t[3:6], t[6:]))


def _cn(rng: random.Random) -> str:
    t = f"110105{rng.randint(1950, 2005)}{rng.randint(1, 12):02d}{rng.randint(1, 28):02d}{value_of('{d3}', rng)}"
    return t + "10X98765432"[sum(int(c) * (2 ** (17 - i)) for i, c in enumerate(t)) % 11]


def _dni(rng: random.Random) -> str:
    number = rng.randrange(10**7, 10**8)
    return f"{number}{'TRWAGMYFPDXBNJZSQVHLCKE'[number % 23]}"


def _nino(rng: random.Random) -> str:
    t = rng.choice(("TN", "JR", "AB", "PW")) + value_of("{d6}", rng) + rng.choice("ABCD")
    return t if rng.random() < 0.3 else f"{t[:2]} {t[2:4]} {t[4:6]} {t[6:8]} {t[8]}"


def _phone(rng: random.Random) -> str:
    return value_of(
        rng.choice(
            ("+44 7700 900{d3}", "+353 20 91{d1} {d4}", "+61 2 5550 {d4}", "+49 30 2312 5{d3}", "+33 1 99 00 {d2} {d2}")
        ),
        rng,
    )


def _phone_us(rng: random.Random) -> str:
    shape = rng.choice(("{a}-{e}-01{n}", "({a}) {e}-01{n}", "+1 {a} {e} 01{n}", "+1-{a}-{e}-01{n}", "{a}.{e}.01{n}"))
    return shape.format(a=rng.choice((206, 512, 415, 303)), e=555, n=value_of("{d2}", rng))


def _address(rng: random.Random) -> str:
    street = f"{rng.randint(10, 9999)} {rng.choice(('Mill', 'Harbor', 'Cedar', 'North Lake'))} "
    street += rng.choice(("Lane", "Street", "Road", "Avenue", "Drive", "St", "Ave", "Blvd"))
    unit = rng.choice(("", ", Apt 4B", ", Suite 310"))
    return f"{street}{unit}, {rng.choice(('Portland, OR 97205', 'Dover, DE 19901', 'Springfield, IL 62704'))}"


def _birth(rng: random.Random) -> str:
    year, month, day = rng.randint(1940, 2008), rng.randint(1, 12), rng.randint(1, 28)
    return rng.choice(
        (f"{year}-{month:02d}-{day:02d}", f"{month:02d}/{day:02d}/{year}", f"{day:02d}.{month:02d}.{year}")
    )


def _email(rng: random.Random) -> str:
    domain = rng.choice(("adventure-works.com", "tailspintoys.co.uk", "northwindtraders.com", "mail.fabrikam.de"))
    return value_of(rng.choice(("p{l6}.lindqvist", "lindqvist+{l4}", "bl{l5}{d2}")), rng) + "@" + domain


def _ipv6(rng: random.Random) -> str:
    return value_of(rng.choice(("2001:db8:{h4}::{h2}:{h4}", "2001:db8:{h4}:{h4}:{h4}:{h4}:{h4}:{h3}")), rng)


PERSONAL: dict[str, tuple[str, Callable[[random.Random], str]]] = {
    "br_cpf": ("cpf", _cpf),
    "ca_sin": ("sin", _sin),
    "cn_resident_id": ("身份证号", _cn),
    "credit_card": ("card_number", _card),
    "date_of_birth": ("date_of_birth", _birth),
    "email": ("email", _email),
    "es_dni": ("DNI", _dni),
    "iban": ("iban", _iban),
    "ipv4_public": (
        "client_ip",
        lambda rng: rng.choice(("192.0.2", "203.0.113", "198.51.100")) + f".{rng.randint(2, 254)}",
    ),
    "ipv6_public": ("remote_addr", _ipv6),
    "mac_address": ("mac", lambda rng: ":".join(value_of("{h2}", rng) for _ in range(6))),
    "phone_intl": ("mobile", _phone),
    "phone_us": ("phone", _phone_us),
    "street_address": ("shipping_address", _address),
    "uk_nino": ("national_insurance_no", _nino),
    "us_passport": ("passport_number", lambda rng: value_of(rng.choice("ABCDE") + "{d8}", rng)),
    "us_ssn": ("ssn", lambda rng: value_of(f"{rng.randint(734, 772)}-{rng.randint(10, 99)}-1{{d3}}", rng)),
}
PLACES: dict[str, Callable[[str, str], str]] = {
    "json": lambda name, v: json.dumps({"name": "Björn Iyer", name: v, "status": "active"}, ensure_ascii=False),
    "ascii_json": lambda name, v: json.dumps({"stdout": f"name,{name},plan\nAnaïs Okafor,{v},pro\n", "exit_code": 0}),
    "table": lambda name, v: f"| field | value |\n|---|---|\n| name | Björn Keller |\n| {name} | {v} |\n",
    "prose": lambda name, v: (
        f"Customer Zofia Dubois confirmed their {name.replace('_', ' ')} is {v} and asked for a callback."
    ),
    "chat": lambda name, v: f"user: my {name.replace('_', ' ')} is {v}, please update it",
    "ticket": lambda name, v: f"Ticket #4821: {name.replace('_', ' ')} on file {v} (verified).",
    "chinese": lambda name, v: f"请把{name}更新为 {v}，谢谢",
    "nested": lambda name, v: json.dumps({"args": json.dumps({name: v})}),
    "diff": lambda name, v: f'+  "{name}": "{v}",\n',
    "env": lambda name, v: f"PLAN=pro\n{name.upper()}={v}\nSTATUS=active\n",
    "yaml": lambda name, v: f"user:\n  name: Bo\n  {name}: {v}\n",
    "toml": lambda name, v: f'{name} = "{v}"\n',
    "xml": lambda name, v: f"<user><{name}>{v}</{name}></user>",
    "xml attribute": lambda name, v: f'<user {name}="{v}"/>',
    "sql insert": lambda name, v: f"INSERT INTO users (id, {name}) VALUES (7, '{v}');",
    "sql row": lambda name, v: f" id | {name}\n----+------\n  7 | {v}\n(1 row)\n",
    "python": lambda name, v: repr({"id": 7, name: v}),
    "python argument": lambda name, v: f"User(id=7, {name}='{v}')",
    "csv": lambda name, v: f"id,{name},city\n7,{v},Rome\n",
    "tabs": lambda name, v: f"id\t{name}\tcity\n7\t{v}\tRome\n",
    "log": lambda name, v: f"2026-02-09 08:15:22 INFO user 7 {name}={v} ok",
    "bold": lambda name, v: f"The {name} is **{v}**.",
    "html": lambda name, v: f"<td>{name}</td><td>{v}</td>",
    "twice in json": lambda name, v: json.dumps({"a": json.dumps({"b": json.dumps({name: v})})}),
    "escaped in text": lambda name, v: f"out: {json.dumps(f'{name}:{chr(10)}{v}{chr(10)}ok')} end",
    "terminal colours": lambda name, v: f"{name}: \x1b[1m{v}\x1b[0m\n",
    "header": lambda name, v: f"X-{name}: {v}\r\n",
    "pair": lambda name, v: json.dumps({"name": name, "value": v}),
    "no space": lambda name, v: f"{name}:{v};id:7",
}


def personal_cases(number: int) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """(kind, form, text, what must be gone)."""
    for kind, (name, make) in PERSONAL.items():
        for n in range(number):
            value = make(random.Random(f"{kind}:{n}"))
            for form, place in PLACES.items():
                yield kind, form, place(name, value), (value,)


UUID = "{h8}-{h4}-4{h3}-9{h3}-{h12}"
CALM = (
    "HEAD is now at {h40} fix: retry policy",
    "index {h7}..{h7} 100644",
    '"task_digest": "sha256:{h64}"',
    "docker.io/library/python@sha256:{h64}",
    "{h64}  dist/app-1.2.0.tar.gz",
    "{h32}  data.csv",
    "        --hash=sha256:{h64} \\",
    'checksum = "{h64}"',
    '      "integrity": "sha512-{b86}==",',
    "session_id: " + UUID,
    "Started job " + UUID + " in 2.1s",
    '"traceId":"{h32}","spanId":"{h16}"',
    "traceparent: 00-{h32}-{h16}-01",
    '"tool_call_id": "call_{a24}"',
    '"system_fingerprint": "fp_{h10}"',
    '"id": "resp_{h48}"',
    '{"type": "thinking", "thinking": "Let me check.", "signature": "Er{b200}=="}',
    "![plot](data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA{b400}=)",
    "{h8}  {h2} {h2} {h2} {h2} {h2} {h2} {h2} {h2}  |........|",
    "/nix/store/{l32}-bash-5.2/bin/bash",
    "/var/lib/docker/overlay2/{h64}/merged",
    "volume {h64}",
    "pod/api-{l10}-{l5} Running",
    "trial__{a7} reward=0.0",
    "tx 0x{h64} mined in block 2427741",
    "to: 0x{h40}",
    "age1{l58}",
    'n="{a16}";e.{a6}=function(r){return r*t^4}',
    "--accent: #{h6}; background: linear-gradient(#{h6}, #{h8});",
    "pid {d6} rss {d10}",
    '"start_time_unix_nano": "171{d16}"',
    "loss 0.{d10}",
    "lat=-62.{d6} lon=33.{d6}",
    "ISBN 978-0-{d6}-42-2",
    "arXiv:22{d2}.{d5}",
    "port range {d4}-{d4}",
    "1.{d3}.{d3} rows in set",
    "lines {d3}-{d3} of 2048",
    "part no. 904-{d2}-{d4}",
    "at 12:34:56:{d3} worker restarted",
    "Co-authored-by: openhands <openhands@all-hands.dev>",
    "npm i left-pad@1.{d1}.{d1}",
    "Successfully installed numpy-2.{d1}.{d1}",
    "max_tokens: {d4}",
    'token_usage: {"prompt_tokens": {d4}, "completion_tokens": {d2}}',
    "SECRET_KEY_LENGTH = {d2}",
    "tokens = tokenizer.encode(text_{d2})",
    "api_key = os.environ['KEY_{u4}']",
    "password = getpass.getpass('Password for {l6}: ')",
    "client_secret: ${SECRET_{u5}}",
    "token: <YOUR_{u6}_TOKEN>",
    "private_key_path: /etc/ssl/{l8}/server.key",
    "secretName: tls-{z8}",
    "token_id = vocab['{z7}']",
    "next_page_token={d5}",
    "cache_key = f'{user}:{l6}'",
    "primary_key=id_{d3}",
    "Tests: {d1} failed, {d3} passed, {d4} total",
    "released {d1}1/11/2025 as version {d1}.{d2}.{d1}",
    '"execution_count": {d2}, "id": "{h8}"',
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b43} me",
    "    assert response.json()['access_token'] == token_{d2}",
    "def reset_password(self, user_{d2}, new_password=None):",
    "key: {l5}_{l6}",
    "{d3}.{d3} tokens/s, {d2} tokens",
    "/home/{l6}/.ssh/id_rsa.pub",
)
"""Hard negatives: hashes, ids, code that names a secret, numbers that look like somebody's."""


def calm_cases(number: int) -> Iterator[tuple[str, str]]:
    """(template, text), plain and inside JSON."""
    for template in CALM:
        for n in range(number):
            text = value_of(template, random.Random(f"{template}:{n}"))
            yield template, text
            yield template, json.dumps({"content": text})
            yield template, f"```\n+{text}\n```"
