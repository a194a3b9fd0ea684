"""A package of twenty exports of all kinds and classes, for tests that use many of them at once."""

from __future__ import annotations

from tests.support import ROOT

HEAD = (ROOT / "tests/vai/invocations/lab/vai-plugin.toml").read_text().partition("[[exports]]")[0]

TOOLS = {
    "reads": "inline read_only stream",
    "reads_quietly": "inline idempotent_write",
    "reads_apart": "isolated read_only stream",
    "reads_behind": "worker read_only",
    "notes": "inline non_idempotent_write scratch",
    "notes_behind": "worker idempotent_write stream scratch",
    "writes": "isolated non_idempotent_write scratch secret",
    "writes_again": "isolated idempotent_write stream scratch secret",
    "asks": "isolated read_only scopes",
    "asks_and_writes": "isolated unknown stream scratch scopes secret",
}
HOOKS = {
    "reacts": "worker",
    "reacts_apart": "isolated",
    "reacts_at_once": "inline",
    "watches": "worker scopes",
}
COMPACTORS = {
    "shortens": "worker scratch",
    "shortens_inline": "worker pins",
    "shortens_apart": "isolated scratch",
}
HARNESSES = {
    "triage": "isolated scopes",
    "triage_with_files": "isolated scopes scratch",
    "triage_behind": "worker scopes",
}
KINDS = {"tool": TOOLS, "hook": HOOKS, "compactor": COMPACTORS, "harness": HARNESSES}
EXPORTS = {name: (kind, words.split()) for kind, them in KINDS.items() for name, words in them.items()}
"""By their ids: the kind, the class, and what else is said of it."""


def manifest() -> str:
    return HEAD + "\n".join(_export(name, kind, *words) for name, (kind, words) in EXPORTS.items())


def _export(name: str, kind: str, written_class: str, *words: str) -> str:
    scopes = ["chains:read", "runs:read", *(["chains:write", "runs:write"] if kind == "harness" else [])]
    lines = [
        f'[[exports]]\nid = "{name}"\nkind = "{kind}"\ndisplay_name = "{name}"\ndefault_timeout_ms = 30000',
        f'execution_class = "{written_class}"\nmax_concurrency = 8\n[exports.permissions]',
        'filesystem = "scratch"' if "scratch" in words else "",
        f"gateway_api_scopes = {scopes}" if "scopes" in words else "",
        'secret_slots = ["key"]' if "secret" in words else "",
        f"[exports.{kind}]",
    ]
    match kind:
        case "tool":
            lines += [f'effect_class = "{words[0]}"', f"streaming = {str('stream' in words).lower()}"]
            lines += ['input_schema = "schemas/input.json"', 'output_schema = "schemas/output.json"']
        case "hook":
            lines += ['subscribes_to = ["lab.weather"]']
        case "compactor":
            lines += ['target_context = "coding"', f"supports_pinned_items = {str('pins' in words).lower()}"]
        case "harness":
            lines += ['mode = "composite"', 'fidelity = "checkpoint"']
    return "\n".join(line for line in lines if line) + "\n"
