"""The build that one writes first: json, re, MinHash.update, pandas, jsonschema. Runs in the rivals' environment.

    straightforward.py JOBS PATTERNS OUT [LIMIT]

Reads every trial or row, replaces every match of every pattern in every message, drops exact duplicates by hash and
near ones by `MinHashLSH(0.85)`, takes group advantages with pandas, keeps the best quarter of each task, validates each
row against a schema and writes it. The same decisions as the default recipe in their plain form, one after the other,
with none of their evidence, ledgers, tables, holdout, pairs or mix. Prints what it read and how long it took (`setup`:
compiling the patterns, once), as JSON.
"""

import hashlib
import json
import re
import sys
import time
from pathlib import Path

import jsonschema
import pandas as pd
from datasketch import MinHash, MinHashLSH

SCHEMA = {
    "type": "object",
    "required": ["messages", "task_id"],
    "properties": {
        "task_id": {"type": "string"},
        "messages": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["role", "content"],
                "properties": {
                    "role": {"enum": ["system", "user", "assistant", "tool"]},
                    "content": {"type": "string"},
                },
            },
        },
    },
}


def rollouts(jobs):
    """(task, reward, messages, bytes read) of each rollout of eval runs or BenchFlow jobs."""
    for file in sorted(jobs.rglob("results.json")):
        data = file.read_text()
        rows = json.loads(data)
        for row in rows:
            yield row["task_id"], row["reward"], row["messages"], len(data) // len(rows)
    for file in sorted(jobs.rglob("llm_trajectory.jsonl")):
        data = file.read_text()
        last = [json.loads(line) for line in data.splitlines()][-1]
        result = json.loads((file.parent.parent / "result.json").read_text())
        messages = last["request"]["body"]["messages"] + [last["response"]["body"]["choices"][0]["message"]]
        yield result["task_name"], result["rewards"]["reward"], messages, len(data)


def cleaned(value, patterns):
    if isinstance(value, str):
        for name, pattern in patterns:
            value = pattern.sub(f"[REDACTED:{name}]", value)
        return value
    if isinstance(value, dict):
        return {key: cleaned(item, patterns) for key, item in value.items()}
    return [cleaned(item, patterns) for item in value] if isinstance(value, list) else value


def sketch(text):
    words = text.lower().split()
    made = MinHash(num_perm=128)
    for i in range(max(1, len(words) - 4)):
        made.update(" ".join(words[i : i + 5]).encode())
    return made


def main(jobs, patterns, out, limit):
    start = time.process_time()
    rules = [(name, re.compile(pattern)) for name, pattern in json.loads(patterns.read_text())]
    validator = jsonschema.Draft202012Validator(SCHEMA)
    index = MinHashLSH(threshold=0.85, num_perm=128)
    rows, size, seen = [], 0, set()
    setup = time.process_time() - start
    for number, (task, reward, messages, read) in enumerate(rollouts(jobs)):
        if number == limit:
            break
        size += read
        messages = cleaned(messages, rules)
        content = json.dumps(messages, sort_keys=True)
        digest = hashlib.sha256(content.encode()).hexdigest()
        if digest in seen:
            continue
        seen.add(digest)
        made = sketch("\n".join(m["content"] for m in messages))
        if index.query(made):
            continue
        index.insert(str(number), made)
        rows.append({"task_id": task, "reward": reward, "messages": messages})
    frame = pd.DataFrame({"task": [r["task_id"] for r in rows], "reward": [r["reward"] for r in rows]})
    grouped = frame.groupby("task")["reward"]
    frame["advantage"] = (frame["reward"] - grouped.transform("mean")) / (grouped.transform("std") + 1e-4)
    frame["rank"] = grouped.rank(method="first", ascending=False)
    chosen = frame["rank"] <= (grouped.transform("size") / 4).clip(lower=1)
    with out.open("w") as file:
        for place in frame.index[chosen]:
            validator.validate(rows[place])
            file.write(json.dumps({**rows[place], "advantage": frame["advantage"][place]}) + "\n")
    took = {"cpu": time.process_time() - start, "setup": setup}
    print(json.dumps({**took, "bytes": size, "rollouts": number if number == limit else number + 1}))


if __name__ == "__main__":
    given = sys.argv[1:]
    main(Path(given[0]), Path(given[1]), Path(given[2]), int(given[3]) if len(given) > 3 else -1)
