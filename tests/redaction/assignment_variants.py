"""Random values that only their name makes secret, in every way that people write them down.

A value's alphabet is one that password generators have; a form takes only what its syntax can hold unescaped.
"""

import json
import random
import string
from collections.abc import Callable, Iterator

WORD = string.ascii_letters + string.digits
ALPHABETS: dict[str, tuple[str, range]] = {
    "letters and digits": (WORD, range(12, 29)),
    "lower case and digits": (string.ascii_lowercase + string.digits, range(12, 25)),
    "hex": (string.hexdigits[:16], range(24, 65)),
    "base64": (WORD + "+/", range(24, 45)),
    "base64url": (WORD + "-_", range(20, 44)),
    "few symbols": (WORD + "_-.!", range(12, 21)),
    "many symbols": (WORD + "!@#%^*_+=?~-.:", range(12, 25)),
    "short with symbols": (WORD + "!@%_-", range(8, 12)),
}
_NAMES = """
    DB_PASSWORD API_KEY SECRET_KEY JWT_SECRET ADMIN_PASSWORD APP_TOKEN password api_key apiKey client_secret
    dbPassword MYSQL_ROOT_PASSWORD REDIS_PASSWORD auth_token encryption_key AWS_SECRET_ACCESS_KEY passphrase
    SMTP_PASSWORD access_token user_password signingKey bot_token SESSION_SECRET
"""
NAMES = _NAMES.split()

Form = Callable[[str, str], str]
FREE: dict[str, Form] = {
    "json": lambda n, v: json.dumps({"user": "app", n: v}),
    "json in json": lambda n, v: json.dumps({"arguments": json.dumps({"env": {n: v}})}),
    "json in a log": lambda n, v: f"[INFO] config: {json.dumps({n: v})} loaded",
    "toml": lambda n, v: f'[db]\nhost = "h"\n{n} = "{v}"\n',
    "yaml, quoted": lambda n, v: f'db:\n  {n}: "{v}"\n  port: 5432\n',
    "env, quoted": lambda n, v: f'DEBUG=1\n{n}="{v}"\nPORT=80\n',
    "env, single quotes": lambda n, v: f"{n}='{v}'\n",
    "export, quoted": lambda n, v: f"$ export {n}='{v}'\n",
    "powershell": lambda n, v: f'PS C:\\> $env:{n} = "{v}"\n',
    "powershell variable": lambda n, v: f"${n} = '{v}'\nConnect-Db -User sa\n",
    "python": lambda n, v: f'{n} = "{v}"\nconnect({n})\n',
    "python, annotated": lambda n, v: f'    {n}: str = "{v}"\n',
    "python argument": lambda n, v: f'client = Client(host="h", {n}="{v}", port=1)\n',
    "python environ": lambda n, v: f'os.environ["{n}"] = "{v}"\n',
    "python getenv default": lambda n, v: f'{n} = os.getenv("{n}", "{v}")\n',
    "javascript": lambda n, v: f"const {n} = '{v}';\n",
    "javascript object": lambda n, v: f"  {n}: '{v}',\n",
    "javascript environment": lambda n, v: f"process.env.{n} = '{v}';\n",
    "go": lambda n, v: f'\t{n} := "{v}"\n',
    "go struct": lambda n, v: f'\t\t{n}:   "{v}",\n',
    "rust": lambda n, v: f'let {n}: &str = "{v}";\n',
    "java": lambda n, v: f'private static final String {n} = "{v}";\n',
    "ruby": lambda n, v: f"  :{n} => '{v}',\n",
    "php": lambda n, v: f"define('{n}', '{v}');\n",
    "php array": lambda n, v: f"    '{n}' => '{v}',\n",
    "terraform": lambda n, v: f'  {n}    = "{v}"\n',
    "curl --user": lambda n, v: f"curl --user 'admin:{v}' https://api.contoso.com/v1/items\n",
    "option, quoted": lambda n, v: f"deploy --{n.lower().replace('_', '-')} '{v}' --region eu\n",
    "sql": lambda n, v: f"CREATE USER app WITH PASSWORD '{v}';\n",
    "sql identified": lambda n, v: f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{v}';\n",
    "xml attribute": lambda n, v: f'<add key="{n}" value="{v}" />\n',
    "in a string": lambda n, v: json.dumps({"cmd": f"export {n}='{v}' && ./run"}),
    "markdown": lambda n, v: f"- **{n}**: `{v}`\n",
    "table": lambda n, v: f"| {n} | `{v}` | prod |\n",
    "diff": lambda n, v: f'-{n} = "changeme"\n+{n} = "{v}"\n',
}
"""What is between quotes: any of the alphabets."""
BARE: dict[str, Form] = {
    "env": lambda n, v: f"DEBUG=1\n{n}={v}\nPORT=80\n",
    "env, last line": lambda n, v: f"{n}={v}",
    "export": lambda n, v: f"$ export {n}={v}\n",
    "inline": lambda n, v: f"{n}={v} npm run build\n",
    "printenv": lambda n, v: f"HOME=/root\n{n}={v}\nSHLVL=1\n",
    "ini": lambda n, v: f"[db]\n{n} = {v}\n",
    "properties": lambda n, v: f"spring.datasource.{n}={v}\n",
    "yaml": lambda n, v: f"db:\n  {n}: {v}\n  port: 5432\n",
    "compose": lambda n, v: f"    environment:\n      - {n}={v}\n",
    "dockerfile": lambda n, v: f"FROM x\nENV {n}={v}\n",
    "dockerfile, old": lambda n, v: f"FROM x\nENV {n} {v}\n",
    "dockerfile arg": lambda n, v: f"ARG {n}={v}\n",
    "docker -e": lambda n, v: f"docker run -d -e {n}={v} -p 80:80 app\n",
    "docker --env": lambda n, v: f'docker run --env "{n}={v}" app\n',
    "kubectl": lambda n, v: f"kubectl create secret generic s --from-literal={n}={v}\n",
    "cmd": lambda n, v: f"C:\\> set {n}={v}\n",
    "setx": lambda n, v: f"setx {n} {v}\n",
    "option": lambda n, v: f"deploy --{n.lower().replace('_', '-')}={v} --region eu\n",
    "option, apart": lambda n, v: f"deploy --{n.lower().replace('_', '-')} {v} --region eu\n",
    "curl -u": lambda n, v: f"curl -u admin:{v} https://api.contoso.com/v1/items\n",
    "curl header": lambda n, v: f'curl -H "X-Api-Key: {v}" https://api.contoso.com/\n',
    "mysql": lambda n, v: f"mysql -u root -p{v} -h db.internal app\n",
    "pgpassword": lambda n, v: f"PGPASSWORD={v} psql -h db -U app\n",
    "chpasswd": lambda n, v: f'echo "deploy:{v}" | chpasswd\n',
    "openssl": lambda n, v: f"openssl rsa -in k.pem -passin pass:{v}\n",
    "redis-cli": lambda n, v: f"redis-cli -h cache -a {v} ping\n",
    "xml": lambda n, v: f"<server><{n}>{v}</{n}></server>\n",
    "prose": lambda n, v: f"The {n} is {v}\n",
    "label": lambda n, v: f"Login with user app and Password: {v}\n",
    "debug log": lambda n, v: f"2026-01-02 DEBUG settings {n}={v} retries=3\n",
    "json-escaped env": lambda n, v: json.dumps({"content": f"$ cat .env\nA=1\n{n}={v}\nB=2\n"}),
    "query": lambda n, v: f"GET /login?user=app&{n}={v} HTTP/1.1\n",
    "diff of env": lambda n, v: f"-{n}=\n+{n}={v}\n",
}
"""What stands without quotes: no character that a shell, a URL or YAML would take for its own."""
HELD_BARE = frozenset(WORD + "+/-_.=~^%")
QUERY = frozenset(WORD + "-_.~")


def assignments(number: int) -> Iterator[tuple[str, str, str, str]]:
    """(form, alphabet, text, value): `number` values of every alphabet in every form."""
    for form, around in (FREE | BARE).items():
        for label, (alphabet, sizes) in ALPHABETS.items():
            rng = random.Random(f"{form}:{label}")
            held = alphabet
            if form in BARE:
                held = "".join(c for c in alphabet if c in (QUERY if form == "query" else HELD_BARE))
            for _ in range(number):
                size = rng.choice(sizes)
                value = rng.choice(WORD) + "".join(rng.choices(held, k=size - 2)) + rng.choice(WORD)
                if label == "hex":
                    value = "".join(rng.choices(alphabet, k=size))
                yield form, label, around(rng.choice(NAMES), value), value
