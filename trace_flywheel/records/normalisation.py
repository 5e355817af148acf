"""How a group's rewards become advantages: the names that settings, commands and rows share."""

from typing import Literal

Normalisation = Literal["grpo", "loo", "dr-grpo", "max-rl"]
