"""The dataset card: a README that says where rows come from, what was left out and why, made from the manifest alone.

It holds no clock and no path of this machine, so the same version has the same card. A required field that cannot be
known here says `not-applicable` and why; nothing is invented.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from trace_flywheel.lake.front_matter import front_matter, quoted

UNKNOWN = {
    "license": "not-applicable: the runs name none; `card.license` of the settings says it",
    "consent": "not-applicable: no run says what its owner agreed to; `card.consent` of the settings does",
    "template": "not-applicable: rows are message lists; the chat template is chosen by the trainer",
    "packing": "not-applicable: rows are not packed",
    "synthetic_real": "not-applicable: whether a recorded run counts as real is for its owner to say",
}
THRESHOLDS_SHOWN = 50
"""Tasks whose threshold the card repeats; a page of numbers is read by nobody."""
KINDS = {
    "sft": "supervised conversations",
    "pair": "preference pairs",
    "kto": "unpaired answers, each labelled good or bad",
    "prompt": "prompts of tasks that are neither always nor never solved",
    "rl": "rollouts with rewards and group advantages",
}


def card(manifest: Mapping[str, Any]) -> str:
    """The README of a version, from its manifest."""
    return "\n".join((*front_matter(manifest), *_head(manifest), *_funnel(manifest), *_fields(manifest)))


def _head(manifest: Mapping[str, Any]) -> Iterator[str]:
    counts, kind = manifest["counts"], KINDS[manifest["kind"]]
    yield from (f"# {manifest['dataset']}", "")
    yield f"Version `{manifest['version']}`: {manifest['rows']} rows, {kind}."
    if not manifest["rows"]:
        yield "It is empty: `load_dataset(FOLDER, streaming=True)` gives its columns and no row; without `streaming`"
        yield "the library refuses a split of no rows."
    yield f"Of {counts['in']} rollouts that entered, {counts['kept']} are kept."
    if excised := manifest.get("facts", {}).get("excised"):
        yield f"{excised} rows were taken out when this was published already: what says how rows were chosen"
        yield "(thresholds, candidates, shares of a mix) is of the rows before."
    yield ""
    for warning in manifest.get("warnings", ()):
        yield from (f"> **Warning.** {warning}", "")


def _funnel(manifest: Mapping[str, Any]) -> Iterator[str]:
    yield from ("## Counts", "", "| stage | in | kept | dropped |", "|---|---:|---:|---|")
    for step in manifest["funnel"]:
        dropped = ", ".join(f"{n} {reason}" for reason, n in sorted(step["dropped"].items()))
        yield f"| {step['stage']} | {step['in']} | {step['kept']} | {dropped} |"
    splits = manifest.get("splits", {})
    if set(splits) <= {"train"}:
        yield from ("", f"Rows: {manifest['rows']}, all in one split (`train`); no other split was asked for.", "")
        return
    named = ", ".join(f"{n} {split}" for split, n in splits.items())
    yield from ("", f"Rows by split, whole tasks each: {named}. Seed {manifest['settings']['seed']}.", "")


def _fields(manifest: Mapping[str, Any]) -> Iterator[str]:
    settings, facts = manifest["settings"], manifest.get("facts", {})
    yield f"""## Provenance

{len(manifest["inputs"]["runs"])} runs, named with their content digests in `manifest.json`. Every row has its run,
trace, grader, source file and hash in `provenance.parquet`, in the order of the rows; every rollout
that entered has its fate in `fates.parquet`.

## Grading

A reward of at least {settings["grading"]["pass_reward"]} passes where a verifier writes no verdict."""
    for grader, versions in sorted(manifest["graders"].items()):
        yield f"- `{grader}`: {', '.join(f'`{v}`' for v in versions) or 'no version recorded'}"
    yield f"""
## Synthetic and real

{UNKNOWN["synthetic_real"]}

## Rights

- License: {_stated(settings, "license")}
- Right to train on the sources: {_stated(settings, "consent")}

## Deduplication

Exact: equal case-folded, white-space-collapsed text. Near: Jaccard of word 5-shingles of the prompt and of the
supervised text both at least {settings["dedup"]["threshold"]}, found with 128-permutation MinHash and verified exactly.
A row is dropped only against one that is kept.{_meaning(settings)}

## Holdout

Goldens: {facts.get("goldens", 0)} items. A rollout is dropped by its task id, or when
{settings["goldens"]["overlap"]:.0%} of a golden statement's 8-token n-grams or its whole answer stand in it; finished
rows are looked through again.

## Redaction

Secrets always, personal data by the set `{settings["redaction"]["pii"]}`. Finished rows are scanned again; one with a
finding is dropped.{_redaction(settings["redaction"], facts.get("redaction"))}

## Golden files

By the first 12 hex digits of their sha256; other files make this version stale."""
    yield from (f"- `{name}`: `{mark}`" for name, mark in sorted(facts.get("golden_files", {}).items()))
    if mix := facts.get("mix"):
        yield from ("", "## Depth mix", "", "| class | target | supply | kept |", "|---|---:|---:|---:|")
        for name, supply in mix["supply"].items():
            share = mix["share"].get(name)
            yield f"| {name} | {'natural' if share is None else f'{share:.0%}'} | {supply} | {mix['kept'][name]} |"
        yield from _classifier(facts.get("classifier"), settings["mix"]["column"])
    yield from ("", "## Template", "", UNKNOWN["template"], "", "## Packing", "", UNKNOWN["packing"])
    yield from ("", "## Conversion", "", "```yaml", *_conversion(manifest), "```", "")
    yield from ("## Settings", "", "```json", json.dumps(settings, indent=1, sort_keys=True), "```", "")


def _stated(settings: Mapping[str, Any], field: str) -> str:
    said = settings.get("card", {}).get(field)
    return UNKNOWN[field] if said in (None, "", "unstated") else str(said)


def _meaning(settings: Mapping[str, Any]) -> str:
    if "embedding_model" not in settings:
        return ""
    least, model = settings["dedup"]["embedding_threshold"], settings["embedding_model"]
    said = f"rows of one task whose prompts and\nsupervised texts both have a cosine of {least} or more (`{model}`)"
    return f" By meaning: {said}."


def _classifier(info: Mapping[str, Any] | None, column: str) -> Iterator[str]:
    """What told the classes, where a model did."""
    if info is None or column != "depth":
        return
    sees = f", n-grams and sentence vectors (`{info['encoder']}`)" if "encoder" in info else " and n-grams"
    judged = f", macro-F1 {told['macro_f1']:.3f} by {told['by']}" if (told := info.get("held_out")) else ""
    yield from ("", f"Classifier: cues{sees}, {info['rows']} prompts (`{info['training_set'][:12]}`){judged}.")


def _redaction(settings: Mapping[str, Any], facts: Mapping[str, Any] | None) -> str:
    """What was replaced, what that keeps from being learned, and what may stay and why."""
    said = ""
    if facts is not None:
        found = ", ".join(f"{rule} {n}" for rule, n in facts["findings_in_runs"].items())
        masked, turns = facts["turns_masked_for_placeholders"], facts["turns"]
        said += f"\n\nReplaced in the runs: {found or 'nothing'}."
        said += f"\nTurns not learned because they would teach a placeholder: {masked} of {turns}." if turns else ""
    for entry in settings.get("allow", ()):
        said += f"\n- left in place: `{entry['pattern'] or entry['fingerprint']}`, because: {entry['reason']}"
    return said


def _conversion(manifest: Mapping[str, Any]) -> Iterator[str]:
    facts, dropped = manifest.get("facts", {}), manifest["counts"]["dropped"]
    yield "conversion:"
    yield f"  source_runs: {json.dumps([r['run_id'] for r in manifest['inputs']['runs']])}"
    yield f"  grader_versions: {json.dumps(manifest['graders'], sort_keys=True)}"
    if manifest["kind"] == "pair":
        yield "  preference_pairs:"
        yield f"    built: {facts.get('pairs_built', manifest['rows'])}"
        if ended := facts.get("pair_candidates"):
            yield f"    candidates: {json.dumps(ended)}  # every pass with every failure of its group"
        yield f"    kept_after_delta_filter: {manifest['rows']}"
        rule = quoted(manifest["settings"]["pairs"]["rule"])
        yield f"    rejected_selection: {rule}  # sigma of the population, ddof=0"
        if about := facts.get("pairs"):
            yield f"    delta_source: {json.dumps(about['delta_source'])}"
            yield f"    delta_lowest_median_highest: {json.dumps(about['delta'])}"
            yield f"    rejected_is_min: {about['rejected_is_min']}"
            yield f"    group_size_lowest_median_highest: {json.dumps(about['group_size'])}"
            yield f"    spread_lowest_median_highest: {json.dumps(about['spread'])}"
    if labels := facts.get("labels_published"):
        yield "  unpaired_answers:"
        yield from (f"    {name}: {n}" for name, n in labels.items())
        weights = facts.get("kto_weights") or {}
        yield from (f"    {name}: {weight}  # brings the labels into balance" for name, weight in weights.items())
    if manifest["kind"] == "sft":
        kinds = facts.get("kinds", {})
        yield "  sft_rows:"
        yield f"    from_rejection_sampling: {kinds.get('sft', 0)}"
        share = manifest["settings"]["selection"]["keep_fraction"]
        yield f"    keep_fraction: {share}  # of a task's passing rollouts per grader, rounded up, at least one"
        yield f"    tied_share: {facts.get('tied_share', 0.0)}  # of them the seeded hash decided among"
        thresholds = facts.get("thresholds", {})
        shown = dict(sorted(thresholds.items())[:THRESHOLDS_SHOWN])
        more = f"  # and {len(thresholds) - len(shown)} more in manifest.json" if len(shown) < len(thresholds) else ""
        yield f"    effective_reward_threshold_by_task: {json.dumps(shown)}{more}"
        yield f"    from_human_correction: {kinds.get('correction', 0)}"
        yield f"    step_masked_trajectories: {kinds.get('masked', 0)}"
    scan = sum(dropped.get("redact", {}).values()) + dropped.get("publish", {}).get("finding_after_layout", 0)
    yield "  hygiene:"
    yield f"    golden_ids_held_out: {dropped.get('golden', {}).get('golden_id', 0)}"
    yield "    golden_leak_check: pass"
    yield f"    dedup_against: {json.dumps(facts.get('corpora', []))}"
    yield "    pii_scan: pass"
    yield f"    rows_dropped_by_pii_scan: {scan}"
