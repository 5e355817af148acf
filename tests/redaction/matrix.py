"""Every kind in every syntax: own random values of the published formats, in the places where agents show them.

Kinds are those of `variants`, more as they are commonly known, and what the rules give as examples, drawn anew. A form
takes the variable's name and the value; what it cannot hold unescaped (a quote, a line break) is in no value.
"""

import base64
import json
import random
from collections.abc import Callable, Iterator
from xml.sax.saxutils import escape

from tests.redaction.syntaxes import SYNTAXES
from tests.redaction.variants import BARE, TOKENS, UUID, Kind, value_of
from tests.redaction.variants import FORMS as FIRST
from trace_flywheel.redaction.rules import expand, rules

Form = Callable[[str, str], str]


def _kube(name: str, value: str) -> str:
    data = base64.b64encode(value.encode()).decode()
    return f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: app\ntype: Opaque\ndata:\n  {name}: {data}\n"


def _kube_json(name: str, value: str) -> str:
    data = base64.b64encode(value.encode()).decode()
    return json.dumps({"kind": "Secret", "data": {name: data}, "metadata": {"name": "app"}})


def _diff_of_yaml(name: str, value: str) -> str:
    return (
        f"@@ -3,7 +3,7 @@ env:\n     - name: REGION\n-    - name: {name}\n-      value: {value}\n+    - name: {name}\n"
    )


FORMS: dict[str, Form] = {
    **FIRST,
    **SYNTAXES,
    "inline code": lambda n, v: f"Set `{n}` to `{v}` and restart.",
    "inline assignment": lambda n, v: f"Run it with `{n}={v} npm start`, please.",
    "fence": lambda n, v: f"Do this:\n\n```bash\nexport {n}={v}\n```\nDone.",
    "diff removed": lambda n, v: f"--- a/.env\n+++ b/.env\n@@ -1 +1 @@\n-{n}={v}\n+{n}=\n",
    "diff in json": lambda n, v: json.dumps({"patch": f"--- a/.env\n+++ b/.env\n-{n}=\n+{n}={v}\n"}),
    "diff of yaml": _diff_of_yaml,
    "yaml flat": lambda n, v: f"region: eu\n{n}: {v}\nport: 80\n",
    "yaml quoted": lambda n, v: f'region: eu\n{n.lower()}: "{v}"\n',
    "yaml folded": lambda n, v: f"{n}: >-\n  {v}\nport: 80\n",
    "yaml literal": lambda n, v: f"{n}: |\n  {v}\nport: 80\n",
    "toml": lambda n, v: f'[auth]\n{n.lower()} = "{v}"\nuser = "ci"\n',
    "xml element": lambda n, v: f"<config><{n.lower()}>{escape(v)}</{n.lower()}></config>",
    "xml attribute": lambda n, v: f'<add key="{n}" value="{escape(v)}" />',
    "xml property": lambda n, v: f"<property><name>{n.lower()}</name><value>{escape(v)}</value></property>",
    "sql insert": lambda n, v: f"INSERT INTO settings (name, value) VALUES ('{n}', '{v}');",
    "sql update": lambda n, v: f"UPDATE accounts SET {n.lower()} = '{v}' WHERE id = 7;",
    "sql row": lambda n, v: f" id | {n.lower()}\n----+-------\n  1 | {v}\n(1 row)\n",
    "python repr": lambda n, v: repr({"region": "eu", n: v, "retries": 3}),
    "python source": lambda n, v: f'os.environ["{n}"] = "{v}"\n',
    "python keyword": lambda n, v: f'client = Client({n.lower()}="{v}", timeout=3)\n',
    "shell export": lambda n, v: f"$ export {n}='{v}'\n$ make deploy\n",
    "shell inline": lambda n, v: f"$ {n}={v} python train.py --steps 3\n",
    "shell option": lambda n, v: f"deploy --{n.lower().replace('_', '-')}={v} --region eu\n",
    "heredoc": lambda n, v: f"cat > .env <<'EOF'\nDEBUG=0\n{n}={v}\nEOF\n",
    "heredoc in json": lambda n, v: json.dumps({"command": f"cat > .env <<EOF\nA=1\n{n}={v}\nEOF\n"}),
    "http header": lambda n, v: (
        f"GET / HTTP/1.1\r\nHost: a.contoso.com\r\nX-{n.title().replace('_', '-')}: {v}\r\n\r\n"
    ),
    "bearer": lambda n, v: f"curl -H 'Authorization: Bearer {v}' https://a.contoso.com/v1\n",
    "url query": lambda n, v: f"GET https://a.contoso.com/v1/items?{n.lower()}={v}&page=2 200\n",
    "log": lambda n, v: f"2026-02-09 08:15:22,113 - app.config - DEBUG - {n.lower()}: {v}\n",
    "log json": lambda n, v: json.dumps({"ts": 1, "level": "info", "msg": f"using {n}={v}"}),
    "csv": lambda n, v: f"service,{n.lower()},region\nbilling,{v},eu\n",
    "csv pairs": lambda n, v: f"name,value\nREGION,eu\n{n},{v}\n",
    "ini": lambda n, v: f"[default]\n{n.lower()} = {v}\nregion = eu\n",
    "properties": lambda n, v: f"app.region=eu\napp.{n.lower().replace('_', '.')}={v}\n",
    "docker env": lambda n, v: f"FROM alpine\nENV {n}={v}\nRUN make\n",
    "docker run": lambda n, v: f"docker run --rm -e {n}={v} -p 80:80 app:1\n",
    "compose": lambda n, v: f"services:\n  app:\n    environment:\n      - {n}={v}\n      - A=1\n",
    "workflow": lambda n, v: f"jobs:\n  build:\n    env:\n      {n}: {v}\n    steps:\n      - run: make\n",
    "workflow step": lambda n, v: f"      - uses: a/b@v1\n        with:\n          {n.lower()}: '{v}'\n",
    "kubernetes string": lambda n, v: f"kind: Secret\nstringData:\n  {n}: {v}\n",
    "kubernetes env": lambda n, v: f'env:\n- name: {n}\n  value: "{v}"\n- name: A\n  value: "1"\n',
    "kubernetes data": _kube,
    "kubernetes data in json": _kube_json,
    "terraform": lambda n, v: f'variable "{n.lower()}" {{\n  default = "{v}"\n}}\n',
    "javascript": lambda n, v: f"const {n} = '{v}';\n",
    "printenv": lambda n, v: f"$ printenv {n}\n{v}\n$ \n",
    "terminal colours": lambda n, v: f"\x1b[32m{n}\x1b[0m=\x1b[1m{v}\x1b[0m\n",
    "twice in json": lambda n, v: json.dumps({"a": json.dumps({"b": json.dumps({n: v})})}),
    "jupyter": lambda n, v: json.dumps({"cells": [{"source": [f'{n} = "{v}"\n'], "outputs": []}]}),
}
NAMED_ONLY = {"csv", "sql row", "printenv", "bearer", "sql insert", "csv pairs", "terraform"}
"""Where the name stands apart from the value: forms for values that are known by themselves."""

MORE: dict[str, Kind] = {
    "aws_sts_key": Kind("AWS_ACCESS_KEY_ID", "AS{|}IA{u16}"),
    "google_refresh_token": Kind("REFRESH_TOKEN", "1/{|}/0{a1}{w97}"),
    "openai_service_key": Kind("OPENAI_API_KEY", "sk-{|}svcacct-{w74}T3Blbk{|}FJ{w74}"),
    "openai_admin_key": Kind("OPENAI_ADMIN_KEY", "sk-{|}admin-{w74}T3Blbk{|}FJ{w58}"),
    "moonshot_key": Kind("MOONSHOT_API_KEY", "sk-{|}{a48}"),
    "gitlab_routable": Kind("GITLAB_TOKEN", "gl{|}pat-{w27}.01.{l9}"),
    "gitlab_deploy": Kind("CI_DEPLOY_PASSWORD", "gl{|}dt-{w20}"),
    "gitlab_trigger": Kind("CI_TRIGGER_TOKEN", "gl{|}ptt-{h40}"),
    "slack_config": Kind("SLACK_CONFIG_TOKEN", "xo{|}xe.xoxp-1-{u163}"),
    "atlassian_short": Kind("CONFLUENCE_API_TOKEN", "ATC{|}TT3xFfGN0{w160}={H8}"),
    "stripe_test": Kind("STRIPE_SECRET_KEY", "sk{|}_test_51{a97}"),
    "npm_granular": Kind("NODE_AUTH_TOKEN", "np{|}m_{a36}"),
    "vault_batch": Kind("VAULT_TOKEN", "hv{|}b.AAAAAQ{w138,160}"),
    "vault_legacy": Kind("VAULT_TOKEN", "s.{a24}", False),
    "digitalocean_oauth": Kind("DO_TOKEN", "do{|}o_v1_{h64}"),
    "fly_macaroon": Kind("FLY_API_TOKEN", "fm{|}2_lJPECAAAAAAA{b200}"),
    "supabase_secret": Kind("SUPABASE_SECRET_KEY", "sb{|}_secret_{w22}_{w8}"),
    "cloudflare_global": Kind("CLOUDFLARE_API_KEY", "{h37}", False),
    "cloudflare_origin": Kind("CF_ORIGIN_CA_KEY", "v1.0-{h24}-{h146}", False),
    "azure_openai": Kind("AZURE_OPENAI_API_KEY", "{h32}", False),
    "azure_openai_new": Kind("AZURE_OPENAI_API_KEY", "{a52}JQQJ99{u4}AC{a20}", False),
    "cohere": Kind("COHERE_API_KEY", "{a40}", False),
    "brave": Kind("BRAVE_API_KEY", "BSA{w27}", False),
    "serper": Kind("SERPER_API_KEY", "{h40}", False),
    "exa": Kind("EXA_API_KEY", UUID, False),
    "assemblyai": Kind("ASSEMBLYAI_API_KEY", "{h32}", False),
    "deepgram": Kind("DEEPGRAM_API_KEY", "{h40}", False),
    "pagerduty": Kind("PAGERDUTY_TOKEN", "u+{w18}", False),
    "okta_api": Kind("OKTA_API_TOKEN", "00{w40}", False),
    "algolia": Kind("ALGOLIA_ADMIN_API_KEY", "{h32}", False),
    "intercom": Kind("INTERCOM_ACCESS_TOKEN", "dG9rO{b55}=", False),
    "asana": Kind("ASANA_ACCESS_TOKEN", "2/{d16}/{d16}:{h32}", False),
    "trello": Kind("TRELLO_API_TOKEN", "ATTA{h64}{H8}", False),
    "sendinblue_smtp": Kind("BREVO_SMTP_KEY", "xsmtp{|}sib-{h64}-{a16}"),
    "hf_org": Kind("HF_ORG_TOKEN", "api_{|}org_{z34}"),
    "wandb_new": Kind("WANDB_API_KEY", "wan{|}db_v1_{w77}"),
    "xoxc_cookie": Kind("SLACK_D_COOKIE", "xo{|}xd-{a80}%2B{a60}%2F{a20}%3D"),
    "mongodb_atlas": Kind("ATLAS_PRIVATE_KEY", UUID, False),
    "linode": Kind("LINODE_TOKEN", "{h64}", False),
    "vultr": Kind("VULTR_API_KEY", "{u36}", False),
    "hetzner": Kind("HCLOUD_TOKEN", "{a64}", False),
    "rails_master_key": Kind("RAILS_MASTER_KEY", "{h32}", False),
    "django_secret": Kind("DJANGO_SECRET_KEY", "{p50}", False),
    "fernet": Kind("FERNET_KEY", "{w43}=", False),
    "codecov": Kind("CODECOV_TOKEN", UUID, False),
    "coveralls": Kind("COVERALLS_REPO_TOKEN", "{a33}", False),
    "travis": Kind("TRAVIS_TOKEN", "{w22}", False),
    "jenkins": Kind("JENKINS_API_TOKEN", "11{h32}", False),
    "zendesk": Kind("ZENDESK_API_TOKEN", "{a40}", False),
    "segment": Kind("SEGMENT_WRITE_KEY", "{a32}", False),
    "amplitude": Kind("AMPLITUDE_SECRET_KEY", "{h32}", False),
    "mixpanel": Kind("MIXPANEL_API_SECRET", "{h32}", False),
    "paypal": Kind("PAYPAL_CLIENT_SECRET", "E{w79}", False),
    "adyen": Kind("ADYEN_API_KEY", "AQE{b100}", False),
    "spotify": Kind("SPOTIFY_CLIENT_SECRET", "{h32}", False),
    "reddit": Kind("REDDIT_CLIENT_SECRET", "{w27}", False),
    "twitch": Kind("TWITCH_CLIENT_SECRET", "{l30}", False),
    "github_client_secret": Kind("GITHUB_CLIENT_SECRET", "{h40}", False),
    "auth0": Kind("AUTH0_CLIENT_SECRET", "{w64}", False),
    "nextauth": Kind("NEXTAUTH_SECRET", "{b43}=", False),
    "cloudinary": Kind("CLOUDINARY_API_SECRET", "{w27}", False),
    "mailjet": Kind("MJ_APIKEY_PRIVATE", "{h32}", False),
    "datadog_app": Kind("DD_APP_KEY", "{h40}", False),
    "rollbar": Kind("ROLLBAR_ACCESS_TOKEN", "{h32}", False),
    "snyk": Kind("SNYK_TOKEN", UUID, False),
    "sonar_old": Kind("SONAR_TOKEN", "{h40}", False),
    "argocd": Kind("ARGOCD_AUTH_TOKEN", "eyJhbGciOiJI{|}UzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOi{w100}.{w43}"),
    "age_plugin": Kind("AGE_KEY", "AGE-SECRET-{|}KEY-1{u58}"),
}
"""Formats that the first table does not hold, as they are commonly known: half of them are told by the name alone."""


def kinds() -> dict[str, Kind]:
    """Every kind by name, those of the rules' own examples last."""
    found = {**TOKENS, **MORE}
    for rule in rules():
        if rule.family in ("personal", "private_key", "url_or_header", "assignment"):
            continue
        for n, template in enumerate(rule.examples):
            if " " not in template and not template.startswith(("https:", "//", "Account", "SharedAccess")):
                found[f"{rule.name}/{n}"] = Kind("API_KEY", template)
    return found


def matrix(number: int, seed: int = 0) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """(kind, form, text, parts of the value that must be gone), `number` values of every kind in every form."""
    for kind, (name, template, bare) in kinds().items():
        for n in range(seed, seed + number):
            rng = random.Random(f"matrix:{kind}:{n}")
            value = expand(template, f"matrix:{n}") if "/" in kind else value_of(template, rng)
            forms = {**FORMS, **BARE} if bare else {f: m for f, m in FORMS.items() if f not in NAMED_ONLY}
            for form, place in forms.items():
                half = len(value) // 2
                parts = (value[:half], value[half:]) if form == "split" else (value,)
                if form.startswith("kubernetes data"):
                    parts = (base64.b64encode(value.encode()).decode(),)
                yield kind, form, place(name, value), parts
