//! Diagnostics of the model member and its thread.

convoke_core::diagnostic_codes! {
    AGENT_KEY_WITHHELD = "agent.key-withheld", Note,
        "The key was not sent, because it was configured for another URL.",
        "Configure the key for that URL in agents.toml, or name it with --key-env.";
    THREAD_COMPACTED = "thread.compacted", Note,
        "A thread was compacted: a summary replaced its earlier items.",
        "No action needed: the replaced items are stored, and the compaction can be undone.";
    THREAD_COMPACTION_FAILED = "thread.compaction-failed", Error,
        "A thread reached its limit and could not be compacted; it continues unchanged.",
        "Read the reason; compact again, or start a new thread.";
    THREAD_COMPACTION_USELESS = "thread.compaction-useless", Error,
        "A thread was compacted and is still over its limit.",
        "Shorten the instructions, or use a model with a larger context window.";
    THREAD_REQUEST_UNREADABLE = "thread.request-unreadable", Note,
        "The previous request cannot be read back, so the unchanged prefix is unknown.",
        "The conversation is not affected; check the disk that holds the sessions.";
    THREAD_TURN_RETRIED = "thread.turn-retried", Note,
        "A turn was retried; the thread entries of the earlier attempt are skipped.",
        "No action needed: the entries of the earlier attempt stay in the store.";
    PROJECT_FILE_OUTSIDE = "project-file.outside", Loss,
        "A file of an untrusted project is a link to a file outside the project, and was not read.",
        "Trust the project with `convoke trust`, or replace the link with the file.";
    PROJECT_FILE_KERNEL = "project-file.kernel", Loss,
        "A file of the project is a link to a file of the kernel (`/proc`, `/sys`), and was not read.",
        "Replace the link with a file.";
    PROJECT_FILE_SECRET = "project-file.secret", Loss,
        "A file of the project is a link to one of the user's secrets, and was not read.",
        "Replace the link with a file; `convoke docs permissions` lists what counts as a secret.";
}
