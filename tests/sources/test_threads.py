import json
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sources.benchflow_jobs import BASH, call, chat, read_job, read_one, record, trial
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.sources.capture import Capture, read_capture
from trace_flywheel.sources.thread_grouping import Thread
from trace_flywheel.sources.threads import Evidence, threads_of

USER = {"role": "user", "content": "Fix the test."}
AGENT = {
    "type": "function",
    "function": {"name": "Agent", "parameters": {"type": "object", "properties": {"prompt": {}}}},
}


def turn(call_id: str, **values: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [call(call_id, **values)]}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": f"out {call_id}"}


def answer(call_id: str, **values: Any) -> dict[str, Any]:
    return {"content": None, "tool_calls": [call(call_id, **values)]}


def threads(tmp_path: Path, exchanges: list[Any], agent: str = "openhands", **evidence: Any) -> list[Thread]:
    path = tmp_path / "capture.jsonl"
    path.write_text("\n".join(map(json.dumps, exchanges)))
    capture = read_capture(path, tmp_path, 1_000_000)
    assert isinstance(capture, Capture)
    return threads_of(capture.calls, agent, lambda: Evidence(**evidence))


def told(found: list[Thread]) -> list[tuple[str, list[int], str | None]]:
    return [(t.purpose, [m.call.index for m in t.members], t.spawned_by) for t in found]


def test_requests_that_extend_each_other_are_one_thread(tmp_path: Path) -> None:
    exchanges = [
        chat(answer("c1"), [USER]),
        chat(answer("c2"), [USER, turn("c1"), result("c1")]),
        chat("done", [USER, turn("c1"), result("c1"), turn("c2"), result("c2")]),
    ]
    (thread,) = threads(tmp_path, exchanges)
    assert [(m.items, m.extends) for m in thread.members] == [(1, True), (3, True), (5, True)]


def test_cache_marks_content_spelling_and_system_text_do_not_part_a_thread(tmp_path: Path) -> None:
    marked = {"role": "user", "content": [{"type": "text", "text": "Fix the test.", "cache_control": {"type": "e"}}]}
    exchanges = [
        chat(answer("c1"), [{"role": "system", "content": "Now 10:00."}, marked]),
        chat(
            "done", [{"role": "system", "content": "Now 10:01."}, {"role": "system", "content": "+"}, USER, turn("c1")]
        ),
    ]
    (thread,) = threads(tmp_path, exchanges)
    assert [(m.items, m.lead, m.extends) for m in thread.members] == [(2, 1, True), (4, 2, True)]


def test_a_shorter_text_is_no_prefix(tmp_path: Path) -> None:
    exchanges = [chat("a", [{"role": "user", "content": "Fix"}]), chat("b", [{"role": "user", "content": "Fix it"}])]
    assert len(threads(tmp_path, exchanges)) == 2


def test_a_re_rendered_history_stays_but_is_no_prefix(tmp_path: Path) -> None:
    cleared = {**result("c1"), "content": "[cleared]"}
    exchanges = [
        chat(answer("c1"), [USER]),
        chat(answer("c2"), [USER, turn("c1"), result("c1")]),
        chat("done", [USER, turn("c1"), cleared, turn("c2"), result("c2")]),
    ]
    (thread,) = threads(tmp_path, exchanges)
    assert [m.extends for m in thread.members] == [True, False, True]


def test_opencode_helpers_are_known_by_their_system_prompts(tmp_path: Path) -> None:
    def helper(system: str, tools: list[Any]) -> dict[str, Any]:
        return chat("x", [{"role": "system", "content": system}, {"role": "user", "content": "y"}], tools=tools)

    exchanges = [
        helper("You are a title generator. Be short.", []),
        chat("done", [USER]),
        helper("Summarize what was done in this conversation.", []),
        helper("You are an anchored context summarization assistant", [BASH]),
        helper("Guess.", []),
    ]
    assert told(threads(tmp_path, exchanges, agent="opencode")) == [
        ("agent", [1], None),
        ("title", [0], None),
        ("summary", [2], None),
        ("compaction", [3], None),
        ("helper", [4], None),
    ]


def test_a_recorded_purpose_wins(tmp_path: Path) -> None:
    summary = {
        **chat("x", [USER, {"role": "user", "content": "Summarise."}]),
        "metadata": {"call_purpose": "compaction"},
    }
    exchanges = [{**chat("done", [USER]), "metadata": {"call_purpose": "agent"}}, summary]
    assert told(threads(tmp_path, exchanges)) == [("agent", [0], None), ("compaction", [1], None)]


def test_a_conversation_without_function_tools_is_a_helper(tmp_path: Path) -> None:
    search = [{"type": "web_search_20250305", "name": "web_search"}]
    exchanges = [
        chat("found", [{"role": "user", "content": "Search x"}], tools=search),
        chat("named", [USER], tools=[]),
        chat("done", [USER]),
    ]
    assert told(threads(tmp_path, exchanges)) == [("agent", [2], None), ("helper", [0], None), ("helper", [1], None)]


def spawned(prompt: str) -> dict[str, Any]:
    return answer("s1", name="Agent", arguments=json.dumps({"prompt": prompt, "description": "d"}))


def test_a_sub_agent_is_known_by_its_spawn_prompt(tmp_path: Path) -> None:
    child = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "<system-reminder>x</system-reminder>"}, {"text": "Look."}],
        }
    ]
    exchanges = [
        chat(spawned("Look.\n"), [USER], tools=[AGENT, BASH]),
        chat(answer("k1"), child),
        chat(answer("k2"), [*child, turn("k1"), result("k1")]),
        chat("seen", [*child, turn("k1"), result("k1"), turn("k2"), result("k2")]),
        chat("done", [USER, turn("s1", name="Agent"), result("s1")], tools=[AGENT, BASH]),
    ]
    assert told(threads(tmp_path, exchanges)) == [("agent", [0, 4], None), ("subagent", [1, 2, 3], "s1")]


def test_a_sub_agent_is_known_by_acp_links(tmp_path: Path) -> None:
    exchanges = [chat(answer("k1"), [{"role": "user", "content": "Other words."}]), chat("done", [USER])]
    found = threads(tmp_path, exchanges, links={"k1": "s9"})
    assert told(found) == [("agent", [1], None), ("subagent", [0], "s9")]


def test_the_thread_that_opens_with_the_prompt_is_the_main_one(tmp_path: Path) -> None:
    stray = [{"role": "user", "content": "Something else."}]
    exchanges = [
        chat("done", [USER]),
        chat(answer("k1"), stray),
        chat("x", [*stray, turn("k1"), result("k1")]),
    ]
    found = threads(tmp_path, exchanges, prompts=("Fix the test.",))
    assert told(found) == [("agent", [0], None), ("subagent", [1, 2], None)]
    assert [t.attributed for t in found] == [True, False]


def test_capture_without_successful_calls_has_no_thread(tmp_path: Path) -> None:
    assert threads(tmp_path, [record({}, status=201, messages=[USER])]) == []


class TestRollout:
    """What threads mean for the rollout."""

    def test_a_trailing_helper_is_not_the_trial(self, tmp_path: Path) -> None:
        trial(
            tmp_path, "t__1", [chat("done", [USER]), chat("A title", [{"role": "user", "content": "Title?"}], tools=[])]
        )
        rollout = read_one(tmp_path)
        assert [m.content for m in rollout.messages] == ["Fix the test.", "done"]
        assert [(e.purpose, e.thread, e.context, len(e.messages)) for e in rollout.exchanges] == [
            ("agent", 0, 1, 0),
            ("helper", 1, None, 2),
        ]
        assert rollout.exchanges[1].tools == ()

    def test_what_cannot_be_attributed_is_noted_and_not_fatal(self, tmp_path: Path) -> None:
        trial(
            tmp_path,
            "t__1",
            [chat("x", [{"role": "user", "content": "?"}]), chat("done", [USER])],
            prompts=["Fix the test."],
        )
        rollout = read_one(tmp_path)
        assert (rollout.metadata or {})["unattributed_threads"] == [0]
        assert rollout.messages[-1].content == "done"

    def test_of_two_answers_to_one_request_the_one_in_the_history_counts(self, tmp_path: Path) -> None:
        first = {**answer("lost"), "reasoning_content": "not this"}
        second = {**answer("c1"), "reasoning_content": "this"}
        third = {**answer("also lost"), "reasoning_content": "nor this"}
        history = [USER, turn("c1"), result("c1")]
        trial(tmp_path, "t__1", [chat(m, [USER]) for m in (first, second, third)] + [chat("done", history)])
        rollout = read_one(tmp_path)
        assert [m.reasoning for m in rollout.messages] == [None, "this", None, None]
        assert [(e.context, len(e.messages)) for e in rollout.exchanges] == [(None, 2), (1, 0), (None, 2), (3, 0)]

    def test_every_pointer_leads_to_the_recorded_request_and_answer(self, tmp_path: Path) -> None:
        history = [{"role": "system", "content": "s"}, USER]
        exchanges = []
        for n in range(5):
            exchanges.append(chat(answer(f"c{n}"), list(history)))
            history += [turn(f"c{n}"), result(f"c{n}")]
        trial(tmp_path, "t__1", [*exchanges, chat("done", history)])
        rollout = read_one(tmp_path)
        assert [e.context for e in rollout.exchanges] == [2, 4, 6, 8, 10, 12]
        ids = [[c.id for c in rollout.messages[e.context].tool_calls] for e in rollout.exchanges if e.context]
        assert ids == [["c0"], ["c1"], ["c2"], ["c3"], ["c4"], []]

    def test_a_call_with_another_system_prompt_keeps_its_own(self, tmp_path: Path) -> None:
        system = {"role": "system", "content": "s", "cache_control": {"type": "ephemeral"}}
        history = [USER, turn("c1"), result("c1"), turn("c2"), result("c2")]
        plain = [{"role": "system", "content": "s"}, *history[:3]]
        trial(
            tmp_path,
            "t__1",
            [chat(answer("c1"), [USER]), chat(answer("c2"), plain), chat("done", [system, *history])],
        )
        first, second, last = read_one(tmp_path).exchanges
        assert [m.role for m in first.messages] == ["user", "assistant"]
        assert (first.context, second.context, last.context) == (None, 4, 6)

    def test_a_side_conversation_of_an_unknown_shape_loses_nothing_else(self, tmp_path: Path) -> None:
        odd = chat("x", [{"role": "critic", "content": "?"}], tools=[])
        trial(tmp_path, "t__1", [odd, chat("done", [USER])])
        rollout = read_one(tmp_path)
        assert rollout.messages[-1].content == "done"
        assert [e.index for e in rollout.exchanges] == [1]
        assert (rollout.metadata or {})["unreadable_exchanges"] == {"0": "unknown role 'critic'"}

    def test_surrogates_in_a_system_prompt(self, tmp_path: Path) -> None:
        system = {"role": "system", "content": "a\udcb2"}
        trial(tmp_path, "t__1", [chat(answer("c1"), [system, USER]), chat("done", [system, USER, turn("c1")])])
        assert read_one(tmp_path).messages[0].content == "a\ufffd"


@pytest.mark.corpus
def test_sub_agents_of_the_conformance_case(shared_dir: Path, tmp_path: Path) -> None:
    with tarfile.open(shared_dir / "conformance" / "benchflow-cases.tar.xz") as tar:
        tar.extractall(tmp_path, [m for m in tar if "/c15_subagents/input/" in m.name], filter="data")
    (job,) = tmp_path.glob("**/c15_subagents/input/jobs/*")
    median, ringlog = (r for r in read_job(job) if isinstance(r, Rollout))
    assert [e.index for e in median.exchanges if e.thread == 0] == [0, 2, 4]
    assert [(e.index, e.purpose) for e in median.exchanges if e.thread] == [(3, "helper")]
    assert (median.metadata or {})["orphan_results"] == [4, 5]
    main = [e.index for e in ringlog.exchanges if e.thread == 0]
    spawned = [(e.index, e.spawned_by) for e in ringlog.exchanges if e.purpose == "subagent"]
    assert main == [0, 3]
    assert spawned == [(1, "toolu_demo_plan_spawn_0002"), (2, "toolu_demo_plan_spawn_0002")]


def test_an_opencode_helper_is_known_by_its_prompt_however_the_requests_alternate(tmp_path: Path) -> None:
    """What was found of one request is taken over for those that go on with it, and for no other."""
    agent = {"role": "system", "content": "You are an agent."}
    title = {"role": "system", "content": "You are a title generator. Be short."}
    late = {"role": "system", "content": "You are a title generator."}
    exchanges = [
        chat(answer("c1"), [agent, USER]),
        chat("A title", [title, USER], tools=None),
        chat(answer("c2"), [agent, USER, turn("c1"), result("c1")]),
        chat("Another", [title, USER, {"role": "assistant", "content": "A title"}, USER], tools=None),
        chat("done", [agent, USER, turn("c1"), result("c1"), turn("c2"), result("c2"), late]),
        chat("A third", [USER], tools=None),
        chat("A fourth", [USER, {"role": "assistant", "content": "A third"}, late], tools=None),
    ]
    found = threads(tmp_path, exchanges, agent="opencode")
    assert told(found) == [
        ("agent", [0, 2, 4], None),
        ("title", [1, 3, 6], None),
        ("helper", [5], None),
    ]


REQUESTS = st.lists(
    st.lists(st.sampled_from(["s", "u", "a"]), min_size=1, max_size=5), min_size=1, max_size=7
) | st.integers(2, 6).map(lambda n: [["s", "u", *["a", "u"] * i] for i in range(n)])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(REQUESTS, st.integers(0, 7), st.sampled_from([200, 500]))
def test_what_reading_saw_repeated_changes_no_thread(
    tmp_path: Path, requests: list[list[str]], odd: int, status: int
) -> None:
    roles = {"s": "system", "u": "user", "a": "assistant"}
    exchanges = [
        record(
            {"choices": [{"message": {"content": "x"}}]},
            status if i == odd else 200,
            messages=[{"role": roles[r], "content": f"{r}{n}"} for n, r in enumerate(request)],
        )
        for i, request in enumerate(requests)
    ]
    path = tmp_path / "capture.jsonl"
    path.write_text("\n".join(map(json.dumps, exchanges)))
    capture = read_capture(path, tmp_path, 1_000_000)
    assert isinstance(capture, Capture)
    found = []
    for calls in (capture.calls, [msgspec.structs.replace(one, goes_on=None) for one in capture.calls]):
        grouped = threads_of(calls, "openhands", Evidence)
        found.append([[(m.call.index, m.items, m.lead, m.head, m.extends) for m in t.members] for t in grouped])
    assert found[0] == found[1]
