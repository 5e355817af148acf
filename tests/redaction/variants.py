"""Random values of credential kinds, made from the kinds' public formats and not from our rules, in seven forms.

A template's `{a36}` is 36 characters of an alphabet, `{a20,60}` between 20 and 60. `name` is the variable that holds
the value where one is usual.
"""

import base64
import json
import random
import re
import string
from collections.abc import Callable, Iterator
from typing import NamedTuple

LETTERS, DIGITS = string.ascii_letters, string.digits
ALPHABETS = {
    "a": LETTERS + DIGITS,
    "l": string.ascii_lowercase + DIGITS,
    "u": string.ascii_uppercase + DIGITS,
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "d": DIGITS,
    "b": LETTERS + DIGITS + "+/",
    "w": LETTERS + DIGITS + "-_",
    "z": LETTERS,
    "q": LETTERS + DIGITS + "_~.-",
    "p": LETTERS + DIGITS + "_!*#+=-^.",
}


class Kind(NamedTuple):
    name: str
    """The variable that holds it."""
    template: str
    bare: bool = True
    """Known by its own shape, so that it is found without a name too."""


UUID = "{h8}-{h4}-4{h3}-9{h3}-{h12}"
TOKENS = {
    "age_secret_key": Kind("SOPS_AGE_KEY", "AGE-SECRET-{|}KEY-1{u58}"),
    "airtable_pat": Kind("AIRTABLE_API_KEY", "pat{a14}.{h64}"),
    "alibaba_access_key_id": Kind("ALIBABA_CLOUD_ACCESS_KEY_ID", "LT{|}AI{a16,20}"),
    "anthropic_api_key": Kind("ANTHROPIC_API_KEY", "sk-{|}ant-api03-{w93}AA"),
    "anthropic_oauth_token": Kind("CLAUDE_CODE_OAUTH_TOKEN", "sk-{|}ant-oat01-{w93}AA"),
    "atlassian_token": Kind("JIRA_API_TOKEN", "ATA{|}TT3xFfGF0{w160,180}={H8}"),
    "aws_access_key_id": Kind("AWS_ACCESS_KEY_ID", "AK{|}IA{u16}"),
    "aws_bedrock_api_key": Kind("AWS_BEARER_TOKEN_BEDROCK", "AB{|}SK{b109}"),
    "aws_secret_access_key": Kind("AWS_SECRET_ACCESS_KEY", "{b40}", False),
    "aws_session_token": Kind("AWS_SESSION_TOKEN", "IQoJb3JpZ2luX2Vj{b250,400}=="),
    "azure_client_secret": Kind("AZURE_CLIENT_SECRET", "{a3}8{|}Q~{q34}"),
    "azure_client_secret_7": Kind("AZURE_CLIENT_SECRET", "{a3}7{|}Q~{q31,34}"),
    "azure_devops_pat": Kind("AZURE_DEVOPS_EXT_PAT", "{l52}", False),
    "bitbucket_app_password": Kind("BITBUCKET_APP_PASSWORD", "AT{|}BB{a32}"),
    "braintree_token": Kind("BRAINTREE_ACCESS_TOKEN", "access{|}_token$production${l16}${h32}"),
    "cloudflare_api_token": Kind("CLOUDFLARE_API_TOKEN", "{w40}", False),
    "databricks_token": Kind("DATABRICKS_TOKEN", "da{|}pi{h32}"),
    "datadog_api_key": Kind("DD_API_KEY", "{h32}", False),
    "daytona_key": Kind("DAYTONA_API_KEY", "dt{|}n_{h64}"),
    "deepseek_key": Kind("DEEPSEEK_API_KEY", "sk-{|}{h32}"),
    "digitalocean_pat": Kind("DIGITALOCEAN_ACCESS_TOKEN", "do{|}p_v1_{h64}"),
    "discord_bot_token": Kind("DISCORD_TOKEN", "M{a25}.{w6}.{w38}"),
    "discord_webhook": Kind("DISCORD_WEBHOOK_URL", "https://discord.{|}com/api/webhooks/{d19}/{w68}"),
    "dockerhub_pat": Kind("DOCKER_PASSWORD", "dckr{|}_pat_{w27}"),
    "doppler_token": Kind("DOPPLER_TOKEN", "dp.{|}pt.{a43}"),
    "e2b_key": Kind("E2B_API_KEY", "e2{|}b_{h40}"),
    "ethereum_private_key": Kind("PRIVATE_KEY", "0{|}x{h64}", False),
    "facebook_access_token": Kind("FB_ACCESS_TOKEN", "EAACEd{|}Eose0cBA{a100,150}"),
    "fcm_server_key": Kind("FCM_SERVER_KEY", "AAAA{w7}:APA{|}91b{w134}"),
    "figma_pat": Kind("FIGMA_TOKEN", "fi{|}gd_{w40}"),
    "fireworks_key": Kind("FIREWORKS_API_KEY", "fw{|}_{a24}"),
    "flyio_token": Kind("FLY_API_TOKEN", "fo{|}1_{w43}"),
    "gcp_api_key": Kind("GOOGLE_API_KEY", "AI{|}za{w35}"),
    "gcp_oauth_access_token": Kind("ACCESS_TOKEN", "ya{|}29.{w130,180}"),
    "gcp_oauth_client_secret": Kind("GOOGLE_CLIENT_SECRET", "GOC{|}SPX-{w28}"),
    "github_app_token": Kind("GITHUB_APP_TOKEN", "gh{|}s_{a36}"),
    "github_oauth_token": Kind("OAUTH_TOKEN", "gh{|}o_{a36}"),
    "github_pat_classic": Kind("GITHUB_TOKEN", "gh{|}p_{a36}"),
    "github_pat_fine_grained": Kind("GH_TOKEN", "github{|}_pat_{a22}_{a59}"),
    "gitlab_pat": Kind("GITLAB_TOKEN", "gl{|}pat-{w20}"),
    "gitlab_runner_token": Kind("RUNNER_TOKEN", "gl{|}rt-{w20}"),
    "grafana_service_token": Kind("GRAFANA_TOKEN", "gl{|}sa_{a32}_{h8}"),
    "groq_key": Kind("GROQ_API_KEY", "gs{|}k_{a52}"),
    "heroku_api_key": Kind("HEROKU_API_KEY", "HR{|}KU-AA{w58}"),
    "heroku_uuid": Kind("HEROKU_API_KEY", UUID, False),
    "huggingface_token": Kind("HF_TOKEN", "hf{|}_{z34}"),
    "jwt": Kind("ID_TOKEN", "eyJhbGciOiJI{|}UzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOi{w60,300}.{w43,86}"),
    "langfuse_secret_key": Kind("LANGFUSE_SECRET_KEY", "sk-{|}lf-" + UUID),
    "langsmith_key": Kind("LANGSMITH_API_KEY", "lsv{|}2_pt_{h32}_{h10}"),
    "linear_key": Kind("LINEAR_API_KEY", "lin{|}_api_{a40}"),
    "mailchimp_key": Kind("MAILCHIMP_API_KEY", "{h32}-u{|}s{d1,2}"),
    "mailgun_key": Kind("MAILGUN_API_KEY", "ke{|}y-{h32}"),
    "mapbox_secret_token": Kind("MAPBOX_TOKEN", "s{|}k.eyJ1Ijoi{w60,90}.{w22}"),
    "mistral_key": Kind("MISTRAL_API_KEY", "{a32}", False),
    "modal_token_secret": Kind("MODAL_TOKEN_SECRET", "a{|}s-{a22}"),
    "netlify_token": Kind("NETLIFY_AUTH_TOKEN", "nf{|}p_{a36}"),
    "newrelic_key": Kind("NEW_RELIC_API_KEY", "NR{|}AK-{u27}"),
    "notion_token": Kind("NOTION_TOKEN", "nt{|}n_{d11}{a35}"),
    "npm_token": Kind("NPM_TOKEN", "np{|}m_{a36}"),
    "nuget_key": Kind("NUGET_API_KEY", "oy{|}2{l43}"),
    "openai_legacy_key": Kind("OPENAI_API_KEY", "sk-{|}{a20}T3Blbk{|}FJ{a20}"),
    "openai_project_key": Kind("OPENAI_API_KEY", "sk-{|}proj-{w74}T3Blbk{|}FJ{w74}"),
    "openrouter_key": Kind("OPENROUTER_API_KEY", "sk-{|}or-v1-{h64}"),
    "perplexity_key": Kind("PERPLEXITY_API_KEY", "ppl{|}x-{a48}"),
    "pinecone_key": Kind("PINECONE_API_KEY", "pc{|}sk_{a6}_{a63}"),
    "postman_key": Kind("POSTMAN_API_KEY", "PM{|}AK-{h24}-{h34}"),
    "pypi_token": Kind("TWINE_PASSWORD", "pypi-Ag{|}EIcHlwaS5vcmc{w120,170}"),
    "replicate_token": Kind("REPLICATE_API_TOKEN", "r{|}8_{a37}"),
    "rubygems_key": Kind("GEM_HOST_API_KEY", "ruby{|}gems_{h48}"),
    "sendgrid_key": Kind("SENDGRID_API_KEY", "S{|}G.{w22}.{w43}"),
    "sentry_org_token": Kind("SENTRY_AUTH_TOKEN", "sntry{|}s_eyJpYXQiOjE3{a80}_{b43}"),
    "sentry_user_token": Kind("SENTRY_AUTH_TOKEN", "sntry{|}u_{h64}"),
    "shopify_token": Kind("SHOPIFY_ACCESS_TOKEN", "sh{|}pat_{h32}"),
    "slack_app_token": Kind("SLACK_APP_TOKEN", "xa{|}pp-1-A{u10}-{d13}-{h64}"),
    "slack_bot_token": Kind("SLACK_BOT_TOKEN", "xo{|}xb-{d12}-{d13}-{a24}"),
    "slack_user_token": Kind("SLACK_TOKEN", "xo{|}xp-{d12}-{d12}-{d13}-{h32}"),
    "slack_webhook": Kind("SLACK_WEBHOOK_URL", "https://hooks.{|}slack.com/services/T{u8}/B{u8,10}/{a24}"),
    "square_access_token": Kind("SQUARE_ACCESS_TOKEN", "EA{|}AA{w60}"),
    "stripe_restricted_key": Kind("STRIPE_RESTRICTED_KEY", "rk{|}_live_{a24}"),
    "stripe_secret_key": Kind("STRIPE_SECRET_KEY", "sk{|}_live_{a24,99}"),
    "stripe_webhook_secret": Kind("STRIPE_WEBHOOK_SECRET", "wh{|}sec_{a32}"),
    "tavily_key": Kind("TAVILY_API_KEY", "tv{|}ly-dev-{a32}"),
    "telegram_bot_token": Kind("TELEGRAM_BOT_TOKEN", "6{d9}:A{|}A{w33}"),
    "tencent_secret_id": Kind("TENCENTCLOUD_SECRET_ID", "AK{|}ID{a32}"),
    "terraform_cloud_token": Kind("TF_TOKEN_app_terraform_io", "{a14}.atlas{|}v1.{w60,70}"),
    "twilio_api_key": Kind("TWILIO_API_KEY", "S{|}K{h32}"),
    "twilio_auth_token": Kind("TWILIO_AUTH_TOKEN", "{h32}", False),
    "twitter_bearer": Kind("TWITTER_BEARER_TOKEN", "AAAAAAAAAA{|}AAAAAAAAAAA{a80,95}"),
    "vault_token": Kind("VAULT_TOKEN", "hv{|}s.{w24,95}"),
    "wandb_key": Kind("WANDB_API_KEY", "{h40}", False),
    "xai_key": Kind("XAI_API_KEY", "xa{|}i-{a80}"),
    "env_file_secret": Kind("JWT_SECRET", "{p15,17}", False),
    "password_assignment": Kind("DB_PASSWORD", "{p13,18}", False),
}
"""Kinds that stand alone: one value, one line."""
BLOCKS = ("RSA ", "EC ", "OPENSSH ", "", "PGP ")
HOLDERS = {
    "amqp_url": ("AMQP_URL=amqps://app:%s@db-swy.contoso.com:5671/prod", "{a14,20}"),
    "basic_auth_url": ("pip install --index-url https://reader:%s@pypi.contoso.com/simple pkg", "{a14,20}"),
    "mongodb_srv_url": ("MONGODB_URI=mongodb+srv://app:%s@db-b9d.contoso.com/prod", "{a14,16}"),
    "mysql_url": ('engine = create_engine("mysql://svc_user:%s@10.2.3.46:3306/main")', "{a14,16}"),
    "postgres_url": ('{"dsn": "postgresql://app:%s@primary.internal:5432/app?ssl=true"}', "{a14,20}"),
    "redis_url": ("REDIS_URL=redis://:%s@db-s9z.contoso.com:6379/0", "{a14,20}"),
    "azure_sas_signature": ("https://a.blob.core.windows.net/d/p?sv=2024-11-04&sp=rl&sig=%s", "{a40}%3D"),
    "azure_storage_key": ("DefaultEndpointsProtocol=https;AccountName=c;Account{|}Key=%s;E=core", "{b86}=="),
    "bearer_header": ('curl https://api.contoso.com/v2/runs -H "Authorization: Bearer %s"', "{w48,54}"),
    "okta_ssws_token": ('curl -H "Authorization: SSWS %s" https://contoso.okta.com/api/v1/users', "00{w40}"),
    "session_cookie": ("Cookie: sessionid=%s; theme=dark", "{w64,72}"),
    "connect_sid": ('curl -b "connect.sid=%s" http://app.contoso.com/', "{w64,72}"),
    "jdbc_password": ("spring.datasource.username=app\nspring.datasource.password=%s", "{p18}"),
    "mssql_conn_string": ('"Default": "Server=tcp:a,1433;User ID=sa;Password=%s;Encrypt=true;"', "{p15,17}"),
    "netrc_password": ("machine api.contoso.com\n  login ci\n  password %s", "{a15,17}"),
    "npmrc_auth_token": ("//npm.contoso.com/:_authToken=%s\nalways-auth=true", UUID),
    "wireguard_private_key": ("[Interface]\nPrivateKey = %s\nAddress = 10.8.0.2/24", "{b43}="),
    "kubeconfig_token": ("users:\n- name: d\n  user:\n    token: %s", "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOi{w100}.{w86}"),
}
"""Kinds that only stand inside something."""


def value_of(template: str, rng: random.Random) -> str:
    def fill(match: re.Match[str]) -> str:
        low, high = int(match[2]), int(match[3] or match[2])
        return "".join(rng.choices(ALPHABETS[match[1]], k=rng.randint(low, high)))

    return re.sub(r"\{([a-zA-Z])(\d+)(?:,(\d+))?\}", fill, template).replace("{|}", "")


def _env(name: str, value: str) -> str:
    return f"# .env\nNODE_ENV=production\n{name}={value}\nLOG_LEVEL=info\n"


def _tool(text: str) -> str:
    return json.dumps({"role": "tool", "tool_call_id": "call_Z70VyXGiqRGt", "content": text})


FORMS: dict[str, Callable[[str, str], str]] = {
    "plain": lambda name, value: f'export {name}="{value}"',
    "split": lambda name, value: (
        f'```sh\nexport {name}="{value[: len(value) // 2]}\\\n{value[len(value) // 2 :]}"\n```'
    ),
    "json_escaped": lambda name, value: _tool(f'$ cat .env\nDEBUG=1\n{name}={value}\nPATH="/usr/bin:$HOME/bin"\n'),
    "nested_json": lambda name, value: json.dumps({"arguments": json.dumps({"cmd": "run", "env": {name: value}})}),
    "markdown": lambda name, value: f"The deploy notes say:\n\n> **{name}**\n>\n> `{value}`\n",
    "diff": lambda name, value: f"--- a/.env\n+++ b/.env\n@@ -1,2 +1,2 @@\n-{name}=\n+{name}={value}\n",
    "env": _env,
    "table": lambda name, value: f"| {name} | `{value}` | prod |",
    "log": lambda name, value: f"[2026-02-09T08:15:22Z] INFO config loaded {name}={value} retries=3",
    "yaml": lambda name, value: f"env:\n  - name: {name}\n    value: {value}\n",
    "dockerfile": lambda name, value: f"ENV {name} {value}",
}
BARE: dict[str, Callable[[str, str], str]] = {
    "prose": lambda _, value: f"I found `{value}` in the git history, commit 3 of 7.",
    "answer": lambda _, value: f"Here is the value you asked for: {value}",
    "list": lambda _, value: f"- {value}\n- (second value intentionally blank)",
    "stdout": lambda _, value: f"stdout:\n{value}\nexit code 0",
    "escaped": lambda _, value: _tool(f"stdout:\n{value}\n\texit"),
}
WRAPS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "json_escaped": _tool,
    "nested_json": lambda text: json.dumps({"arguments": json.dumps({"cmd": text})}),
    "markdown": lambda text: f"Notes:\n\n```\n{text}\n```\n",
    "diff": lambda text: "".join(f"+{line}\n" for line in text.split("\n")),
    "removed": lambda text: "".join(f"-{line}\n" for line in text.split("\n")),
    "quoted": lambda text: f"observation: {json.dumps(text)} end",
}


def cases(number: int) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """(kind, form, text, parts of the value that must be gone), `number` values of every kind in every form."""
    for kind, (name, template, bare) in TOKENS.items():
        for n in range(number):
            value = value_of(template, random.Random(f"{kind}:{n}"))
            for form, wrap in (FORMS | BARE if bare else FORMS).items():
                half = len(value) // 2
                yield kind, form, wrap(name, value), (value[:half], value[half:]) if form == "split" else (value,)
    for kind, (holder, template) in HOLDERS.items():
        for n in range(number):
            value = value_of(template, random.Random(f"{kind}:{n}"))
            for form, around in WRAPS.items():
                yield (
                    kind,
                    form,
                    around(holder.replace("{|}", "") % value if "%3D" not in value else holder.replace("%s", value)),
                    (value,),
                )
    for n in range(number):
        rng = random.Random(f"password:{n}")
        basic = base64.b64encode(f"ci:{value_of('{p12,16}', rng)}".encode()).decode()
        for form, around in WRAPS.items():
            yield "basic_auth_header", form, around(f"Authorization: Basic {basic}"), (basic,)
            yield "docker_config_auth", form, around(f'{{"auths": {{"r.io": {{"auth": "{basic}"}}}}}}'), (basic,)
    for label in BLOCKS:
        for n in range(number):
            rng = random.Random(f"{label}:{n}")
            lines = [value_of("{b64}", rng) for _ in range(rng.randint(2, 8))] + [value_of("{b20,62}=", rng)]
            end = f"{label}PRIVATE {'KEY BLOCK' if label == 'PGP ' else 'KEY'}-----"
            text = "\n".join([f"-----BEGIN {end}", *([""] if label == "PGP " else []), *lines, f"-----END {end}"])
            for form, around in WRAPS.items():
                yield f"{label}private key", form, around(text), tuple(lines)
