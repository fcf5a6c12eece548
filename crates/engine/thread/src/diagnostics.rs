//! Diagnostics of model requests and of the files that they are built from.

use std::io;
use std::path::Path;

use convoke_core::diagnostic::Diagnostic;
use convoke_core::diagnostics::FILE_UNREADABLE;

convoke_core::diagnostic_codes! {
    CONFIG_IGNORED = "config.ignored", Note,
        "A key of the configuration has no effect.",
        "Remove it, or use the key that replaced it.";
    RULES_INVALID = "rules.invalid", Loss,
        "A file of command rules could not be read, so its approved prefixes are not listed.",
        "Correct the file, or remove it.";
    RULES_TRUNCATED = "rules.truncated", Loss,
        "The list of approved command prefixes was cut.",
        "Approve fewer and shorter prefixes.";
    SKILL_UNREADABLE = "skill.unreadable", Loss,
        "A skill could not be read, so its text is not sent.",
        "Make its SKILL.md readable, or do not mention it.";
    SKILL_AMBIGUOUS = "skill.ambiguous", Loss,
        "Several skills have the mentioned name, so none is sent.",
        "Mention it by its path: [$name](path).";
    IMAGE_UNUSABLE = "image.unusable", Loss,
        "An image could not be attached; a note was sent in its place.",
        "Use a readable PNG or JPEG file.";
    OUTPUT_TRUNCATED = "output.truncated", Loss,
        "The middle of a tool's output was cut by the model's policy.",
        "Let the tool print less, or raise tool_output_token_limit in config.toml.";
    OUTPUT_ORPHANED = "output.orphaned", Loss,
        "An output whose call is not in the history was left out.",
        "Keep a call together with its output.";
    OUTPUT_MISSING = "output.missing", Note,
        "A call without an output was answered with `aborted`.",
        "Keep a call together with its output.";
    ITEM_DROPPED = "item.dropped", Note,
        "An item of a kind that is not sent was left out of the history.",
        "No action needed: system messages and unknown items are never sent to the model.";
    COMPACTION_TRUNCATED = "compaction.truncated", Loss,
        "Compaction left out or cut user messages that did not fit into 20,000 tokens.",
        "Compact earlier.";
    COMPACTION_DROPPED = "compaction.dropped", Loss,
        "Compaction left out a user message because it begins like one of Codex's own texts; Codex does the same.",
        "Say it again in other words.";
    TOOLS_UNMAPPED = "tools.unmapped", Loss,
        "A tool that is not a function cannot be offered on the Chat wire and was left out.",
        "Use the Responses wire, or describe the tool as a function.";
    MODEL_UNKNOWN = "model.unknown", Note,
        "The model is unknown; default model settings were used.",
        "Correct the name, or set its context window: `model_context_window`, or `context-window` of the agent.";
    THREAD_TEXT_WITHDRAWN = "thread.text-withdrawn", Loss,
        "Instructions sent in an earlier turn were removed, but the model still has them in its thread.",
        "Start a new thread, or tell the model which instructions apply now.";
    LEDGER_UNATTRIBUTED = "ledger.unattributed", Loss,
        "The ledger of a request does not know the source of some of its bytes.",
        "The request itself is complete. Report this as a bug, with the ledger.";
    RECORD_TORN = "record.torn", Note,
        "The last line of a thread's file was truncated and left out.",
        "No action needed: the program that wrote the file was stopped while writing.";
    RECORD_INVALID = "record.invalid", Loss,
        "A line of a thread's file could not be parsed and was left out.",
        "Use a file of the supported version.";
}

/// Returns the diagnostic for bytes of a request whose source is not known.
pub fn unattributed(bytes: u64) -> Diagnostic {
    let message = format!("the ledger does not know the source of {bytes} bytes of this request");
    Diagnostic::new(LEDGER_UNATTRIBUTED, message).with_bytes(bytes)
}

/// Returns the diagnostic for a directory that could not be listed.
pub(crate) fn not_listed(what: &str, directory: &Path, error: &io::Error) -> Diagnostic {
    let message = format!("the {what} in {} are left out: {error}", directory.display());
    Diagnostic::new(FILE_UNREADABLE, message).at_path(directory.display().to_string())
}
