"""Where code, configuration and consoles of many languages put a named secret."""

import json
from collections.abc import Callable
from xml.sax.saxutils import escape

Form = Callable[[str, str], str]


def camel(name: str) -> str:
    first, *rest = name.lower().split("_")
    return first + "".join(part.title() for part in rest)


def pascal(name: str) -> str:
    return "".join(part.title() for part in name.lower().split("_"))


def kebab(name: str) -> str:
    return name.lower().replace("_", "-")


SYNTAXES: dict[str, Form] = {
    "kubectl literal": lambda n, v: (
        f"$ kubectl create secret generic app --from-literal={n}={v} -n prod\nsecret/app created"
    ),
    "ansible": lambda n, v: f"- hosts: all\n  vars:\n    {n.lower()}: !unsafe '{v}'\n    port: 80",
    "rust const": lambda n, v: f'const {n}: &str = "{v}";\nfn main() {{}}',
    "rust let": lambda n, v: f'    let {n.lower()} = "{v}".to_string();',
    "rust some": lambda n, v: f'    {n.lower()}: Some("{v}".into()),',
    "go setenv": lambda n, v: f'\tos.Setenv("{n}", "{v}")\n\tdefer os.Unsetenv("{n}")',
    "go short": lambda n, v: f'\t{camel(n)} := "{v}"\n',
    "go struct": lambda n, v: f'cfg := Config{{\n\t{pascal(n)}: "{v}",\n\tRegion: "eu",\n}}',
    "java const": lambda n, v: f'    private static final String {n} = "{v}";',
    "java prop": lambda n, v: f'    System.setProperty("{n.lower().replace("_", ".")}", "{v}");',
    "csharp init": lambda n, v: f'var client = new Client {{ {pascal(n)} = "{v}", Timeout = 3 }};',
    "csharp verbatim": lambda n, v: f'public string {pascal(n)} {{ get; set; }} = @"{v}";',
    "php define": lambda n, v: f"define('{n}', '{v}');",
    "php array": lambda n, v: f"    '{n.lower()}' => '{v}',",
    "ruby env": lambda n, v: f"ENV['{n}'] = '{v}'",
    "ruby config": lambda n, v: f'  config.{n.lower()} = "{v}"',
    "ruby hash": lambda n, v: f'  {n.lower()}: "{v}",',
    "ruby rocket": lambda n, v: f'  :{n.lower()} => "{v}",',
    "kotlin": lambda n, v: f'    private val {camel(n)} = "{v}"',
    "swift": lambda n, v: f'    let {camel(n)}: String = "{v}"',
    "elixir": lambda n, v: f'config :app, Mailer,\n  {n.lower()}: "{v}",\n  adapter: X',
    "perl": lambda n, v: f"$ENV{{{n}}} = '{v}';",
    "r": lambda n, v: f'Sys.setenv({n} = "{v}")',
    "lua": lambda n, v: f'local {n.lower()} = "{v}"',
    "scala": lambda n, v: f'val {camel(n)}: String = "{v}"',
    "dart": lambda n, v: f"final String {camel(n)} = '{v}';",
    "powershell env": lambda n, v: f'PS C:\\> $env:{n} = "{v}"\nPS C:\\> ',
    "powershell dotnet": lambda n, v: f'[Environment]::SetEnvironmentVariable("{n}", "{v}", "User")',
    "setx": lambda n, v: f"C:\\> setx {n} {v}\n",
    "setx quoted": lambda n, v: f'C:\\> setx {n} "{v}"\nSUCCESS: Specified value was saved.',
    "cmd": lambda n, v: f"@echo off\r\nset {n}={v}\r\ncall run.bat",
    "fish": lambda n, v: f"set -gx {n} {v}\n",
    "fish quoted": lambda n, v: f"set -gx {n} '{v}'\n",
    "tcsh": lambda n, v: f"setenv {n} {v}\n",
    "make": lambda n, v: f"{n} := {v}\nall:\n\trun",
    "make default": lambda n, v: f"{n} ?= {v}\n",
    "cmake": lambda n, v: f'set({n} "{v}")',
    "nginx": lambda n, v: f'        proxy_set_header X-{pascal(n)} "{v}";',
    "systemd": lambda n, v: f'[Service]\nEnvironment="{n}={v}"\nExecStart=/bin/x',
    "systemd bare": lambda n, v: f"[Service]\nEnvironment={n}={v}\nExecStart=/bin/x",
    "helm": lambda n, v: f"helm upgrade app ./c --set app.{camel(n)}={v} --wait",
    "vault": lambda n, v: f"$ vault kv put secret/app {n.lower()}={v}\n",
    "gh": lambda n, v: f'gh secret set {n} --body "{v}" --repo a/b',
    "heroku": lambda n, v: f"heroku config:set {n}={v} -a app",
    "fly": lambda n, v: f"fly secrets set {n}={v}",
    "aws configure": lambda n, v: f"aws configure set {n.lower()} {v} --profile x",
    "postman": lambda n, v: json.dumps({"key": n, "value": v, "type": "secret", "enabled": True}),
    "har": lambda n, v: json.dumps(
        {"headers": [{"name": "X-" + pascal(n), "value": v}, {"name": "Accept", "value": "*/*"}]}
    ),
    "curl header": lambda n, v: f'curl -s -H "X-{kebab(n).title()}: {v}" https://api.contoso.com/v1',
    "curl json": lambda n, v: f'curl -d "{{\\"{n.lower()}\\": \\"{v}\\"}}" https://api.contoso.com/v1',
    "python getenv": lambda n, v: f'{n} = os.getenv("{n}", "{v}")',
    "python get": lambda n, v: f'{n.lower()} = os.environ.get("{n}") or "{v}"',
    "argparse": lambda n, v: f'parser.add_argument("--{kebab(n)}", default="{v}")',
    "click": lambda n, v: f'@click.option("--{kebab(n)}", envvar="{n}", default="{v}")',
    "monkeypatch": lambda n, v: f'    monkeypatch.setenv("{n}", "{v}")',
    "dataclass": lambda n, v: f'    {n.lower()}: str = "{v}"',
    "dict call": lambda n, v: f'settings = dict({n.lower()}="{v}", debug=True)',
    "pydantic": lambda n, v: f'    {n.lower()}: SecretStr = SecretStr("{v}")',
    "field default": lambda n, v: f'    {n.lower()}: str = Field(default="{v}", repr=False)',
    "node env": lambda n, v: f"process.env.{n} = '{v}';",
    "node or": lambda n, v: f"const k = process.env.{n} || '{v}';",
    "js object": lambda n, v: f"export default {{\n  {camel(n)}: '{v}',\n  debug: false,\n}};",
    "ts as": lambda n, v: f"const {camel(n)} = '{v}' as const;",
    "js template": lambda n, v: f"const {camel(n)} = `{v}`;",
    "vite": lambda n, v: f"define: {{ 'import.meta.env.{n}': JSON.stringify('{v}') }},",
    "html": lambda n, v: f'<input type="hidden" name="{n.lower()}" value="{v}">',
    "logfmt": lambda n, v: f'time=2026-02-09T08:15:22Z level=info {n.lower()}={v} msg="starting"',
    "logfmt quoted": lambda n, v: f'time=2026-02-09T08:15:22Z level=info {n.lower()}="{v}" msg="starting"',
    "strace": lambda n, v: f'execve("/usr/bin/app", ["app", "--{kebab(n)}", "{v}"], 0x7ffd /* 23 vars */) = 0',
    "ps": lambda n, v: f"root  4120  0.0 app --{kebab(n)} {v} --port 80",
    "echo": lambda n, v: f'echo "{n}={v}" >> .env.local',
    "printf": lambda n, v: f"printf '%s' '{n}={v}' > f",
    "md list": lambda n, v: f"- **{n}**: `{v}`\n- **REGION**: `eu`",
    "build arg": lambda n, v: f"docker build --build-arg {n}={v} -t x .",
    "toml table": lambda n, v: f"[provider]\nname = 'x'\n{kebab(n)} = '{v}'",
    "hcl": lambda n, v: f'provider "x" {{\n  {n.lower()} = "{v}"\n  region = "eu"\n}}',
    "yaml list pair": lambda n, v: f"env:\n  - {{name: {n}, value: {v}}}",
    "circleci": lambda n, v: f"      - run:\n          command: |\n            export {n}={v}\n            ./deploy.sh",
    "travis": lambda n, v: f"env:\n  global:\n    - {n}={v}",
    "gitlab ci": lambda n, v: f"variables:\n  {n}: '{v}'",
    "json pretty": lambda n, v: json.dumps({"auth": {n.lower(): v, "type": "x"}}, indent=2),
    "json camel": lambda n, v: json.dumps({"config": {camel(n): v}}),
    "json array args": lambda n, v: json.dumps(["app", f"--{kebab(n)}", v]),
    "json argv eq": lambda n, v: json.dumps({"args": ["run", f"--{kebab(n)}={v}"]}),
    "nested args": lambda n, v: json.dumps(
        {"function": {"name": "bash", "arguments": json.dumps({"cmd": f"export {n}='{v}'"})}}
    ),
    "android": lambda n, v: f'<string name="{n.lower()}">{v}</string>',
    "graphql vars": lambda n, v: json.dumps({"query": "mutation{}", "variables": {"input": {camel(n): v}}}),
    "jenkins": lambda n, v: f"    environment {{\n        {n} = '{v}'\n    }}",
    "declare": lambda n, v: f'declare -x {n}="{v}"',
    "xml cdata": lambda n, v: f'<entry key="{n}"><![CDATA[{v}]]></entry>',
    "plist": lambda n, v: f"<key>{n}</key>\n<string>{escape(v)}</string>",
}
