"""Token ids and logprobs that a rollout carries, and what they may be used for."""
