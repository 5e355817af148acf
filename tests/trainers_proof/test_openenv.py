"""openenv-episodes through OpenEnv's collector: its serializer finds all episodes, resumes, and appends behind ours."""

import json

import pytest

collect = pytest.importorskip("openenv.core.harness.collect", exc_type=ImportError)


def test_a_folder_is_one_that_the_collector_may_resume(converted) -> None:
    folder = converted("openenv-episodes")
    serializer = collect.RolloutSerializer(folder)
    rows = [json.loads(line) for line in serializer.results_path.read_bytes().splitlines()]
    ids = serializer.collected_episode_ids()
    assert len(ids) == len(rows) > 0
    for row in rows:
        assert collect.EpisodeRecord(**row).to_dict() == row  # every key is a field, every field is there
    metadata = json.loads(serializer.metadata_path.read_text("utf-8"))
    assert metadata["episodes"] == len(rows)
    again = collect.EpisodeRecord(**{**rows[0], "episode_id": "one-more"})
    serializer.write_episode(again)
    assert serializer.collected_episode_ids() == {*ids, "one-more"}


def test_the_trace_is_what_the_harness_would_have_written(exported) -> None:
    """Field by field against the harness's own classes."""
    from openenv.core.harness.rollout import ToolResult, ToolTraceEntry

    folder = exported("rl_dataset", "openenv-episodes") / "episodes"
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_bytes().splitlines()]
    assert collect.RolloutSerializer(folder).collected_episode_ids() == {row["episode_id"] for row in rows}
    traced = [entry for row in rows for entry in row["tool_trace"]]
    assert traced
    for entry in traced:
        made = ToolTraceEntry(
            tool_name=entry["tool_name"], arguments=entry["arguments"], result=ToolResult(**entry["result"])
        )
        assert collect._tool_trace_entry_to_plain(made) == entry
