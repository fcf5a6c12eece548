//! Diagnostics of the command itself.

convoke_core::diagnostic_codes! {
    TOOLS_MISSING = "tools.missing", Note,
        "The request offers no tools, because none were given; Codex would offer its own.",
        "Pass a file of tools: --tools FILE.";
    THREAD_COMPACTS = "thread.compacts", Note,
        "The thread has reached its limit, so the next request asks for a summary, not for a reply.",
        "No action needed: the request after it contains the prompt.";
    REHEARSAL_STAND_IN = "rehearsal.stand-in", Note,
        "A member's program is not available for the rehearsal; the built-in stand-in replaced it.",
        "Install the program, or rehearse with the stand-in alone: --rehearse.";
    REHEARSAL_CHANGED = "rehearsal.changed", Error,
        "The model did not receive the prompt byte for byte.",
        "Compare the two with `convoke sessions show` and `convoke capture`.";
    RUN_ANSWER_UNREAD = "run.answer-unread", Note,
        "A line on standard input did not answer an agent's question and was skipped.",
        "Write {\"type\":\"permission\",\"id\":ID,\"answer\":\"once\"}, or session or never.";
    DOCTOR_CONFIGURATION = "doctor.configuration", Error,
        "The user's agents.toml or the team file of this directory has errors, so every run fails.",
        "Correct the setting that the message names; `convoke check` shows every error of a team file.";
    DOCTOR_STORE = "doctor.store", Error,
        "The store of sessions cannot be used, so every run fails.",
        "Make the directory or the database that the message names usable; CONVOKE_DATA_DIR names another directory.";
}
