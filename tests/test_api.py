"""The library's three functions: what they give, in which order, and what they refuse."""

import inspect

import pytest

from tests.flow.token_jobs import token_trial
from tests.sources.benchflow_jobs import chat, trial
from trace_flywheel import api
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.rollout import Rollout

SECRET = "ghp_" + "e" * 36


@pytest.fixture
def job(tmp_path):
    job = tmp_path / "job"
    token_trial(job, "t__1", answers=("I look.", "I see.", f"The key is {SECRET}."))
    token_trial(job, "t__2", reward=0.0)
    return job


def test_rollouts_come_in_path_order_and_redacted(job):
    first, second = api.load_rollouts(job)
    assert (first.trace_id, second.trace_id) == ("t__1", "t__2")
    assert first.messages[-1].content == "The key is [REDACTED:github_token:1]."
    assert first.exchanges == ()
    assert len(next(api.load_rollouts(job, exchanges=True)).exchanges) == 3


def test_an_exchange_has_its_own_usage(tmp_path):
    usages = [{"prompt_tokens": 10, "completion_tokens": 3}, {"prompt_tokens": 20, "completion_tokens": 4}]
    user, said = {"role": "user", "content": "go"}, {"role": "assistant", "content": "one"}
    calls = [chat("one", [user]), chat("two", [user, said, user])]
    for call, usage in zip(calls, usages, strict=True):
        call["response"]["body"]["usage"] = usage
    trial(tmp_path / "job", "t__1", calls, result={"agent_result": {"total_tokens": 37}})
    (rollout,) = api.load_rollouts(tmp_path / "job", exchanges=True)
    assert [exchange.usage for exchange in rollout.exchanges] == usages
    assert rollout.token_usage == {"total_tokens": 37}


def test_or_as_they_are(job):
    assert SECRET in str(next(api.load_rollouts(job, pii=None)).messages)


def test_what_cannot_be_read_is_handed_over_and_the_rest_goes_on(job, caplog):
    (job / "t__1" / "result.json").write_text("{")
    drops = []
    assert [r.trace_id for r in api.load_rollouts(job, on_drop=drops.append)] == ["t__2"]
    assert [(drop.reason, drop.trace_id) for drop in drops] == [("bad_json", "t__1")]
    assert len(list(api.load_rollouts(job))) == 1
    assert "t__1/result.json: bad_json" in caplog.text


def test_one_rollout_at_a_time(job):
    loading = api.load_rollouts(job)
    assert isinstance(next(loading), Rollout)
    (job / "t__2" / "result.json").unlink()
    assert list(loading) == []


def test_a_path_without_a_job(tmp_path):
    with pytest.raises(FlywheelError, match="no job found"):
        list(api.load_rollouts(tmp_path))


def test_training_signals_are_those_of_convert(job):
    signal = api.training_signals(job)
    (group,) = signal.groups
    assert group.id == "task=t|agent=opencode|model=vllm/p|job=job"
    assert [(m.rollout, m.reward) for m in group.members] == [("t__1", 1.0), ("t__2", 0.0)]
    assert [m.advantage for m in group.members] == pytest.approx([0.70701, -0.70701], abs=1e-5)
    (loo,) = api.training_signals(job, normalisation="loo", by=("task",)).groups
    assert [m.advantage for m in loo.members] == [1.0, -1.0]
    (bare,) = api.training_signals(job, normalisation="dr-grpo", by=("task",)).groups
    assert [m.advantage for m in bare.members] == [0.5, -0.5]


def test_a_group_with_an_unreadable_member_is_withheld(job):
    (job / "t__1" / "result.json").write_text("{")
    (group,) = api.training_signals(job).groups
    assert group.withheld == "withheld_unreadable"
    assert group.members[0].advantage is None


def test_an_unknown_group_key(job):
    with pytest.raises(ValueError, match="no group key 'tasks'; known: task, agent"):
        api.training_signals(job, by=("tasks",))
    with pytest.raises(ValueError, match="no group key"):
        list(api.stream_rollouts(job, by=("tasks",)))


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"normalisation": "mean"}, "no normalisation 'mean'; known: grpo, loo, dr-grpo, max-rl"),
        ({"eps": float("nan")}, "eps must be a finite number from 0 on, not nan"),
        ({"eps": -1}, "eps must be"),
        ({"eps": "1"}, "eps must be"),
    ],
)
def test_a_signal_that_means_nothing_is_refused_before_anything_is_read(tmp_path, values, told):
    with pytest.raises(ValueError, match=told):
        api.training_signals(tmp_path / "nowhere", **values)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"group_size": 0}, "group_size must be a whole number from 1 on, not 0"),
        ({"group_size": "4"}, "group_size must be"),
        ({"poll_interval": float("inf")}, "poll_interval must be a finite number"),
        ({"timeout": -0.5}, "timeout must be a finite number from 0 on"),
        ({"by": ("tasks",)}, "no group key 'tasks'"),
        ({"pii": "some"}, "pii 'some' is none of"),
    ],
)
def test_a_stream_is_refused_where_it_is_asked_for_and_not_where_it_is_read(job, values, told):
    with pytest.raises(ValueError, match=told):
        api.stream_rollouts(job, **values)


def test_so_are_rollouts(job):
    with pytest.raises(ValueError, match="pii 'some' is none of"):
        api.load_rollouts(job, pii="some")


def test_two_at_once_and_one_closed_early_do_not_meet(job):
    one, other = api.load_rollouts(job), api.load_rollouts(job)
    assert next(one).trace_id == next(other).trace_id == "t__1"
    one.close()
    assert [rollout.trace_id for rollout in other] == ["t__2"]
    first, second = (api.stream_rollouts(job, follow=False) for _ in range(2))
    assert next(first).rollout == next(second).rollout
    first.close()
    assert len(list(second)) == 1


def test_streaming_goes_on_behind_a_cursor(job):
    records = list(api.stream_rollouts(job, follow=False, group_size=2))
    assert [record.group_complete for record in records] == [True, True]
    assert list(api.stream_rollouts(job, follow=False, group_size=2, after=records[-1].cursor)) == []


@pytest.mark.parametrize("name", api.__all__)
def test_every_function_is_typed_and_documented(name):
    function = getattr(api, name)
    assert function.__doc__
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values())


def test_rules_and_allowed_values_of_the_settings_hold_here_too(job, tmp_path, monkeypatch):
    (tmp_path / "mine.toml").write_text(
        'family = "in_house"\n[[rule]]\nname = "look_word"\ndetect = "I loo"\nconfirm = "(I look)"\n'
        'check = []\nexamples = ["I look"]\n'
    )
    config = tmp_path / "other.toml"
    config.write_text(
        f'[redaction]\nrules = ["mine.toml"]\n[[redaction.allow]]\npattern = "{SECRET}"\nreason = "revoked"\n'
    )
    for rollout in (
        next(api.load_rollouts(job, config=config)),
        next(api.load_rollouts(job, config=config, pii="none")),
    ):
        assert [m.content for m in rollout.messages if m.role == "assistant"] == [
            "[REDACTED:look_word:1].",
            "I see.",
            f"The key is {SECRET}.",
        ]
    assert "look_word" not in str(next(api.load_rollouts(job)).messages)
    monkeypatch.setenv("FLYWHEEL_CONFIG", str(config))
    assert "[REDACTED:look_word:1]" in str(next(api.load_rollouts(job)).messages)
    (tmp_path / "mine.toml").write_text("[[rule")
    for call in (api.load_rollouts, api.training_signals, api.stream_rollouts):
        with pytest.raises(FlywheelError, match=r"mine\.toml"):
            list(call(job))


def test_drops_are_handed_over_without_secrets(job):
    trial = job / "t__1"
    trial.rename(job / f"{SECRET}__1")
    (job / f"{SECRET}__1" / "result.json").write_text("{")
    drops = []
    list(api.load_rollouts(job, on_drop=drops.append))
    assert len(drops) == 1
    assert SECRET not in str(drops)


def test_a_stream_follows_the_settings(job, tmp_path):
    config = tmp_path / "other.toml"
    config.write_text(f'[[redaction.allow]]\npattern = "{SECRET}"\nreason = "revoked"\n')
    kept = next(iter(api.stream_rollouts(job, follow=False, config=config)))
    gone = next(iter(api.stream_rollouts(job, follow=False)))
    assert [segment.calls for segment in kept.segments] == [[0, 1, 2]]
    assert [segment.calls for segment in gone.segments] == [[0, 1]]
