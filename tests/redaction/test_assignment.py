"""When a name makes its value a secret, and when code merely names one."""

import pytest

from trace_flywheel.redaction.assignment import is_secret_value, sensitive, whole_value_is_secret
from trace_flywheel.redaction.redact import redactor


@pytest.mark.parametrize("name", ["password", "db_password", "apiKey", "X-Api-Key", "client_secret", "access_token"])
def test_sensitive_names(name: str) -> None:
    assert sensitive(name)


@pytest.mark.parametrize(
    "name", ["max_tokens", "primary_key", "token_count", "secretName", "next_page_token", "tokenizer", "api_key_header"]
)
def test_harmless_names(name: str) -> None:
    assert not sensitive(name)


@pytest.mark.parametrize(
    ("name", "value", "gap", "secret"),
    [
        ("password", "nEG0cqN=S+BEz0", ": ", True),
        ("password", "models.CharField", " = ", False),
        ("password", "changeme", "=", False),
        ("password", "user_password", " = ", False),
        ("api_key", "os.environ", " = ", False),
        ("api_key", "config.keys.primary2", " = ", False),
        ("API_KEY", "Zk3p.9f8e7d6c5b4a39281706f5e4", "=", True),
        ("token", "7c2f9e1b4d", "=", False),
        ("token", "7c2f9e1b4d6a8835", "=", True),
        ("password", "authentication", " ", False),
        ("password", "9SPlEy9dH6vJBa2", " ", True),
        ("max_tokens", "a1b2c3d4e5f6g7", "=", False),
    ],
)
def test_assignments(name: str, value: str, gap: str, secret: bool) -> None:
    assert is_secret_value(name, value, gap) is secret


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("letmein", True),
        ("correct horse battery", False),
        ("p4ss with words!", True),
        ("", False),
        ("null", False),
        ("{{ .Values.apiKey }}", False),
        ("[REDACTED:secret:1]", False),
        ("<TOKEN>", False),
    ],
)
def test_whole_values(value: str, secret: bool) -> None:
    assert whole_value_is_secret(value) is secret


@pytest.mark.parametrize(
    "line",
    [
        "define('DB_PASSWORD', 'kdWK%4GWuf3');",
        "ENV user_password 1xUBbr3m6r",
        "The client_secret is KDuUiSwS%GU",
        'bot_token = os.getenv("bot_token", "yFBSZ@Kzo2")',
    ],
)
def test_a_short_value_behind_a_mere_word_goes_when_it_came_by_chance(line: str) -> None:
    assert redactor("none").redact_value(line)[1] == {"secret": 1}


@pytest.mark.parametrize(
    "line", ["ENV TOKEN_KIND Bearer2x", "the password is Version2", "set_token(name, 'HttpV2Auth')"]
)
def test_a_short_name_behind_a_mere_word_stays(line: str) -> None:
    assert redactor("none").redact_value(line) == (line, {})


@pytest.mark.parametrize(
    "line",
    [
        "parser.add_argument('--db-password', default='Acgn*dlD=Snx=nC')",
        'jwt_secret = os.environ.get("JWT_SECRET") or "YyXZSGaAZY#q+Hx"',
        '    jwt_secret: Some("SO*OGaotl2Tu5u-LQ".into()),',
        'os.Setenv("DB_PASSWORD", "C9_WojhTp_.mVLVwre")',
        "define('DB_PASSWORD', 'SztBe6F-fzb-xI');",
        'DB_PASSWORD = os.getenv("DB_PASSWORD", "N9YAxIEVEW1WJ-niw1")',
        "DB_PASSWORD==nb1I49#9wm3Qzk",
        "export JWT_SECRET==o9EXOFs.Z+PISdZ",
        "ENV JWT_SECRET czni3=vyt.37rV2s",
    ],
)
def test_a_generated_password_goes_though_each_of_its_pieces_could_be_a_name(line: str) -> None:
    assert redactor("none").redact_value(line)[1] == {"secret": 1}


@pytest.mark.parametrize(
    "line",
    [
        'mock.patch("api_token", "OAuth2Session.Http2Client-Base64Url")',
        "set_secret('db_password', 'x86_64-linux2-gnu3')",
        'load("access_token", "GPT-4.1-mini-2025-Q4")',
        "parser.add_argument('--api-key', default='Content+Encoding#Url')",
        "const secret = options.secret || 'Content-Type*Accept-Encoding';",
        'password: str = Field(default="Reset+Your#Password")',
        "if (db_password==Auth.KEY_1+x)",
        "ENV DB_PASSWORD min_length=Default10+2",
    ],
)
def test_names_and_versions_in_the_same_places_stay(line: str) -> None:
    assert redactor("none").redact_value(line) == (line, {})
