"""What a finding becomes inside a rollout: placeholders, safe structure, tokens gone, or a drop."""

import json
import time
from typing import Any

import pytest

from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.records.rollout import Exchange, Rollout, RolloutError, Source
from trace_flywheel.redaction.redact import NumberFindingError, Redactor, redactor
from trace_flywheel.redaction.rules import rules_of
from trace_flywheel.redaction.scanner import Scanner
from trace_flywheel.redaction.stream import redact_stream

GITHUB = "ghp_" + "a" * 36
OTHER = "ghp_" + "Zb9" * 12
AWS = "AKIA" + "QWERTYUIOPAS2DFG"


def rollout(*messages: Message, **fields: Any) -> Rollout:
    return Rollout("run", "t1", "task", Source("eval_run", "r.json", "0" * 64), messages, **fields)


def redacted(*messages: Message, pii: str = "standard", **fields: Any) -> Rollout:
    result = redactor(pii).redact(rollout(*messages, **fields))
    assert isinstance(result, Rollout), result
    return result


def user(text: str) -> Message:
    return Message("user", text)


def call(arguments: str) -> Message:
    return Message("assistant", tool_calls=(ToolCall("call_1", "bash", arguments),))


def test_a_clean_rollout_keeps_its_objects() -> None:
    clean = rollout(user("list the files"), call('{"cmd": "ls"}'))
    result = redactor("standard").redact(clean)
    assert isinstance(result, Rollout)
    assert result.messages is clean.messages
    assert (result.redactions, result.tokens_removed) == ({}, False)
    assert redactor("standard").redact(result) is result


def test_placeholders_are_numbered_by_first_appearance() -> None:
    result = redacted(user(f"{GITHUB} and {OTHER}"), user(f"{OTHER} then {GITHUB}, {AWS}"))
    assert result.messages[0].content == "[REDACTED:github_token:1] and [REDACTED:github_token:2]"
    assert result.messages[1].content == (
        "[REDACTED:github_token:2] then [REDACTED:github_token:1], [REDACTED:aws_access_key:1]"
    )
    assert result.redactions == {"aws_access_key": 1, "github_token": 4}


def test_marks_already_there_stay_and_numbers_go_on_after_them() -> None:
    result = redacted(user(f"[REDACTED:github_token:1] ***REDACTED*** password=[REDACTED:secret:1] {GITHUB}"))
    assert result.messages[0].content == (
        "[REDACTED:github_token:1] ***REDACTED*** password=[REDACTED:secret:1] [REDACTED:github_token:2]"
    )


def test_every_place_of_text() -> None:
    secret = f"x {GITHUB}"
    hidden = "x [REDACTED:github_token:1]"
    result = redacted(
        Message("assistant", [{"type": "text", "text": secret}], reasoning=secret, extra={"note": secret}),
        tools=(Tool("bash", secret, {"type": "object", "description": secret}, extra={"a": [secret]}),),
        exchanges=(Exchange(0, messages=(user(secret),), tools=(Tool("t", secret),), usage={"a": secret}),),
        error=RolloutError("timeout", secret),
        scoring={"notes": [secret]},
        rewards={"comment": secret, "reward": 1.0},
        token_usage={"raw": secret},
        metadata={"deep": {"er": secret}},
    )
    assert result.messages[0].content == [{"type": "text", "text": hidden}]
    assert (result.messages[0].reasoning, result.messages[0].extra) == (hidden, {"note": hidden})
    assert result.tools[0] == Tool("bash", hidden, {"type": "object", "description": hidden}, extra={"a": [hidden]})
    assert result.exchanges[0].messages[0].content == hidden
    assert result.exchanges[0].tools == (Tool("t", hidden),)
    assert result.exchanges[0].usage == {"a": hidden}
    assert result.error == RolloutError("timeout", hidden)
    assert result.scoring == {"notes": [hidden]}
    assert result.rewards == {"comment": hidden, "reward": 1.0}
    assert (result.token_usage, result.metadata) == ({"raw": hidden}, {"deep": {"er": hidden}})


def test_arguments_stay_json_and_untouched_ones_keep_their_text() -> None:
    spaced = '{ "cmd" :"ls",  "n": 1e3 }'
    nested = json.dumps({"body": json.dumps({"text": f'say "{GITHUB}"\n{GITHUB}', "n": 1}), "ok": None})
    result = redacted(call(spaced), call(nested), call(f"not json {GITHUB}"))
    arguments = [m.tool_calls[0].arguments for m in result.messages]
    assert arguments[0] == spaced
    inner = json.loads(json.loads(arguments[1])["body"])
    assert inner == {"text": 'say "[REDACTED:github_token:1]"\n[REDACTED:github_token:1]', "n": 1}
    assert arguments[2] == "not json [REDACTED:github_token:1]"


def test_keys_numbers_booleans_and_nulls_never_change() -> None:
    text = '{"token": null, "password_required": true, "max_tokens": 4096, "api_key": "s3cr3t-Value-9", "t": 1e5}'
    (message,) = redacted(call(text)).messages
    assert message.tool_calls[0].arguments == text.replace("s3cr3t-Value-9", "[REDACTED:secret:1]")


def test_a_password_with_spaces_goes_whole() -> None:
    (message,) = redacted(call('{"password": "hunter2 is my p4ss!"}')).messages
    assert message.tool_calls[0].arguments == '{"password": "[REDACTED:secret:1]"}'


@pytest.mark.parametrize(
    "code",
    [
        'api_key = os.environ["OPENAI_API_KEY"]',
        "password = getpass.getpass()",
        'headers = {"Authorization": f"Bearer {token}"}',
        "max_tokens: 4096, primary_key=True",
        'if apiKey == "":',
        "token = <TOKEN>",
        "export API_KEY=${API_KEY}",
        "password: xxxxxxxx",
        "git@github.com:o/r.git noreply@github.com jane@example.com",
        "commit 5dfdd2a9f83d5364b3bf0a38c7ad8e137892622d",
        "id 77a196b4-b1a0-44ec-b6fb-304517a2b845 toolu_01SqzP9A0RIfvGE1EyUXCRi0 call_neGuHJp6aPd7HpUltZBpH7tJ",
        "sha256:162647c6ee312b1078576fc0e42add731fd820b27cb78f04e90e085bf596479a",
    ],
)
def test_what_only_looks_like_a_secret_stays(code: str) -> None:
    assert redacted(user(code), pii="all").messages[0].content == code


@pytest.mark.parametrize(
    "shown",
    [
        "AKIA" + "IOSFODNN7EXAMPLE",
        "sk-ant-api03-" + "AbCdEfGhIjKlMnOpQrStUvWx",
        "hf_" + "abcdefghijklmnopqrstuvwxyz",
        "dtn_" + "0123456789abcdef0123",
        '{"password": "hunter2"}',
        "https://bob:pw@example.com",
    ],
)
def test_what_documentation_shows_in_place_of_a_secret_stays(shown: str) -> None:
    assert redacted(user(f"value: {shown}")).messages[0].content == f"value: {shown}"


def test_a_strong_value_goes_everywhere_and_encoded_too() -> None:
    password = "Zx9/k+Q2w=Vb7"
    result = redacted(user(f"DB_PASSWORD={password}"), user(f"tried {password}, Zx9%2Fk%2BQ2w%3DVb7"))
    assert result.messages[1].content == "tried [REDACTED:secret:1], [REDACTED:secret:1]"


def test_a_weak_value_goes_only_where_its_name_is() -> None:
    result = redacted(user("password=tiger42"), user("tiger42 is an animal"))
    assert result.messages[0].content == "password=[REDACTED:secret:1]"
    assert result.messages[1].content == "tiger42 is an animal"


def test_tokens_of_touched_messages_and_later_prompts_go() -> None:
    result = redacted(
        Message("user", "hello", extra={"input_ids": [1]}),
        Message("assistant", "clean", token_ids=(1, 2), logprobs=(0.0, -1.0)),
        Message("user", GITHUB),
        Message("assistant", f"seen {GITHUB}", token_ids=(3,), logprobs=(0.0,)),
        Message("user", "go on"),
        Message("assistant", "done", token_ids=(4,), logprobs=(0.0,), extra={"prompt_token_ids": [1, 2, 3], "a": 1}),
        exchanges=tuple(
            Exchange(
                n, context=c, token_capture={"wire": "w", "prompt_token_ids": [1], "completions": [{"tokens": ["a"]}]}
            )
            for n, c in enumerate((1, 3, 5))
        ),
    )
    assert result.tokens_removed
    assert [m.token_ids for m in result.messages] == [None, (1, 2), None, None, None, (4,)]
    assert [m.logprobs for m in result.messages] == [None, (0.0, -1.0), None, None, None, (0.0,)]
    assert (result.messages[0].extra, result.messages[5].extra) == ({"input_ids": [1]}, {"a": 1})
    assert [sorted(e.token_capture or {}) for e in result.exchanges] == [
        ["completions", "prompt_token_ids", "wire"],
        ["wire"],
        ["completions", "wire"],
    ]


def test_a_secret_that_only_tokens_spell_takes_them_along() -> None:
    pieces = ["It is ", GITHUB[:6], GITHUB[6:20], GITHUB[20:], "."]
    choice = [{"token": piece, "logprob": -0.1, "top_logprobs": [{"token": "no", "logprob": -2.0}]} for piece in pieces]
    result = redacted(
        Message("assistant", "clean", token_ids=(1,), logprobs=(0.0,), extra={"tokens": ["It", " is"], "a": 1}),
        Message("assistant", "It is.", token_ids=(2,), logprobs=(0.0,), extra={"tokens": pieces, "a": 1}),
        Message("assistant", "more", extra={"logprobs": choice, "prompt_token_ids": [1], "a": 1}),
        exchanges=tuple(
            Exchange(n, context=n, token_capture={"wire": "w", "prompt_token_ids": [n], "completions": [{"tokens": t}]})
            for n, t in enumerate((["a", "b"], pieces))
        ),
    )
    assert result.tokens_removed
    assert result.redactions == {"github_token": 3}
    assert [m.content for m in result.messages] == ["clean", "It is.", "more"]
    assert [m.token_ids for m in result.messages] == [(1,), None, None]
    assert [m.extra for m in result.messages] == [{"tokens": ["It", " is"], "a": 1}, {"a": 1}, {"a": 1}]
    assert [sorted(e.token_capture or {}) for e in result.exchanges] == [
        ["completions", "prompt_token_ids", "wire"],
        ["wire"],
    ]
    assert redactor("standard").redact(result) == result


def test_tokens_of_a_touched_text_are_no_second_finding() -> None:
    result = redacted(Message("assistant", f"It is {GITHUB}", extra={"tokens": ["It is ", GITHUB]}))
    assert (result.messages[0].extra, result.redactions) == (None, {"github_token": 1})


def test_a_finding_in_a_number_drops_and_the_drop_has_no_value() -> None:
    result = redactor("standard").redact(rollout(call('{"card": 4111111111111111}'), agent="a", model="m", job="j"))
    assert result == Drop(
        Stage.REDACT,
        "number_finding",
        {"rule": "credit_card"},
        run_id="run",
        trace_id="t1",
        task_id="task",
        agent="a",
        model="m",
        job="j",
        path="r.json",
    )


def test_a_rule_that_fails_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    scanner = Scanner(rules_of("standard"))
    fresh = Redactor(scanner)

    def explode(value: str) -> bool:
        raise RuntimeError(value)

    monkeypatch.setattr(scanner, "_checks", [[explode] for _ in scanner.rules])
    drop = fresh.redact(rollout(user(GITHUB)))
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.evidence) == ("rule_failed", {"error": "RuntimeError"})


def test_a_rule_that_takes_too_long_drops_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    scanner = Scanner(rules_of("standard"))
    fresh = Redactor(scanner, budget=0.5)
    assert isinstance(fresh.redact(rollout(user(f"{GITHUB} me@contoso.com"))), Rollout)
    slow = [rule.name for rule in scanner.rules].index("github_token")

    def hang(value: str) -> bool:
        time.sleep(0.6)
        return True

    checks = [[hang] if i == slow else checks for i, checks in enumerate(scanner._checks)]
    monkeypatch.setattr(scanner, "_checks", checks)
    for text in (GITHUB, json.dumps({"a": GITHUB}), f'x = "{GITHUB[:9]}" + "{GITHUB[9:]}"', f"{OTHER} {GITHUB}"):
        drop = fresh.redact(rollout(user("a text"), user(text)))
        assert isinstance(drop, Drop)
        assert (drop.reason, drop.evidence) == ("rule_failed", {"rule": "github_token", "text": "not done after 0.5 s"})
        assert fresh.scan([text]) == {"github_token": 1}
        (left,) = redact_stream([(1, text)], fresh)
        assert (left.text, left.reason, left.rule) == (None, "rule_failed", "github_token")
    assert isinstance(fresh.redact(rollout(user("me@contoso.com"))), Rollout)


def test_redact_value_and_scan_of_plain_data() -> None:
    value, counts = redactor("standard").redact_value({"a": [GITHUB, 1, None], "ok": True})
    assert value == {"a": ["[REDACTED:github_token:1]", 1, None], "ok": True}
    assert counts == {"github_token": 1}
    assert redactor("standard").scan({"n": 4111111111111111, "t": GITHUB}) == {"credit_card": 1, "github_token": 1}
    assert redactor("standard").scan(value) == {}
    assert redactor("none").redact_value(f"{GITHUB} me@contoso.com") == (
        "[REDACTED:github_token:1] me@contoso.com",
        {"github_token": 1},
    )


def test_image_data_stays_and_server_sent_events_do_not() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "AKIA" + "QWERTYUIOPAS2DFG"}}
    assert redacted(Message("user", [image])).messages[0].content == [image]
    event = json.dumps({"event": f"data: {GITHUB}"})
    assert redacted(user(event)).messages[0].content == '{"event": "data: [REDACTED:github_token:1]"}'


def test_a_number_alone_is_a_number_too() -> None:
    with pytest.raises(NumberFindingError):
        redactor("standard").redact_value(4111111111111111)
    assert redactor("standard").redact_value(4111111111111112) == (4111111111111112, {})
    assert redactor("standard").redact_value(True) == (True, {})


@pytest.mark.parametrize("name", ["api_key", "note"])
def test_half_a_surrogate_pair_beside_a_secret_costs_no_rollout(name: str) -> None:
    clean, found = redactor("standard").redact_value({name: "x\ud800y 7Kq", "t": "ghp_" + "Zb9qT4" * 6})
    assert clean["t"] == "[REDACTED:github_token:1]"
    assert found["github_token"] == 1
    assert "7Kq" in clean[name] or found == {"github_token": 1, "secret": 1}
