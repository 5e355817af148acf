"""Personal data and named secrets in queries, forms and links go; ordinary links stay."""

import json
import random
from collections import Counter
from collections.abc import Callable
from urllib.parse import quote, quote_plus, urlencode

import pytest

from tests.redaction.personal_variants import PERSONAL
from trace_flywheel.redaction.redact import redactor

URL_FORMS: dict[str, Callable[[str, str], str]] = {
    "query": lambda name, v: f"GET https://a.contoso.com/v1/users?id=7&{urlencode({name: v})}&page=2 200",
    "query with %20": lambda name, v: f"GET https://a.contoso.com/v1/users?id=7&{name}={quote(v)}&page=2 200",
    "form": lambda name, v: f"curl -d '{urlencode({name: v, 'plan': 'pro'})}' https://a.contoso.com/",
    "form alone": lambda name, v: f"{urlencode({name: v, 'plan': 'pro'})}\n",
    "form in json": lambda name, v: json.dumps({"body": urlencode({"plan": "pro", name: v})}),
    "json in a query": lambda name, v: "https://a.contoso.com/x?q=" + quote(json.dumps({name: v})),
    "mail link": lambda name, v: f"see mailto:ops?body={quote(f'{name}: {v}')}",
    "query in a query": lambda name, v: f"https://a.contoso.com/?next={quote(f'/u?{name}={quote(v)}', safe='')}",
}


@pytest.mark.parametrize("form", URL_FORMS)
def test_personal_data_goes(form: str) -> None:
    left = Counter[str]()
    for kind, (name, make) in PERSONAL.items():
        for number in range(4):
            value = make(random.Random(f"url {kind} {number}"))
            text = URL_FORMS[form](name, value)
            redacted, found = redactor("all").redact_value(text)
            spelled = {value, quote(value), quote(value, safe=""), quote_plus(value), quote(quote(value), safe="")}
            left[kind] += not found or any(way in redacted for way in spelled)
            assert redactor("all").redact_value(redacted) == (redacted, {})
    assert sum(left.values()) == 0, left


def test_a_value_and_its_encoded_form_are_one() -> None:
    text, found = redactor("standard").redact_value("to ann.lee@contoso.com: /u?mail=ann.lee%40contoso.com&x=1")
    assert text == "to [REDACTED:email:1]: /u?mail=[REDACTED:email:1]&x=1"
    assert found == {"email": 2}


def test_a_password_that_holds_a_percent_sign_goes_as_it_is_written() -> None:
    text, _ = redactor("none").redact_value("db_password = 'Zx9%41k.Q2%vB7'\nlater: Zx9%41k.Q2%vB7 again")
    assert "Zx9" not in text


@pytest.mark.parametrize(
    "text",
    [
        "https://docs.python.org/3/search.html?q=json+loads+3.11&check_keywords=yes&area=default",
        "https://a.contoso.com/x?q=%7B%22page%22%3A%201%2C%20%22max_tokens%22%3A%204096%7D",
        "total=1+2+3+4444+5555+6666+7777; y = x+1",
        "GET /api?filter=created_at%3E%3D2024-01-01%20AND%20state%3Dopen&limit=100 200",
        "https://github.com/a/b/issues?q=is%3Aissue+is%3Aopen+label%3A%22help+wanted%22+sort%3Aupdated-desc",
        "see %USERPROFILE%\\AppData and 100%25 of 20%2C000 rows; strftime('%Y-%m-%d %H:%M:%S')",
        "printf '%20s %40d' and url(data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22/%3E)",
        "password=%s token=%s api_key=%40file",
        "https://b.contoso.com/login?redirect_uri=https%3A%2F%2Fapp.contoso.com%2Fcb&scope=read%20write&state=xyz",
    ],
)
def test_ordinary_links_and_formats_stay(text: str) -> None:
    assert redactor("all").redact_value(text) == (text, {})
