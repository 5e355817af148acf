"""The blocks of docs/python.md run as one program over the sample."""

import re
from pathlib import Path

from trace_flywheel.sample.write import write_sample

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_page_runs(tmp_path, monkeypatch):
    write_sample(tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 3
    exec(compile("\n".join(blocks), str(PAGE), "exec"), {})
