//! Diagnostics of the conversation.

convoke_core::diagnostic_codes! {
    MARKER_UNRESOLVED = "marker.unresolved", Loss,
        "A marker names a member that does not exist.",
        "Use a member's id, name or display name.";
    MARKER_IGNORED = "marker.ignored", Loss,
        "A marker was ignored because its speaker may not use it.",
        "Only people may use [FROM: …]; an agent's identity comes from its turn.";
    QUEUE_FULL = "queue.full", Loss,
        "A message addressed more members than the queue holds; the last ones were left out.",
        "Raise `limits.queue`, or clear the queue with [DROP: ALL].";
    EVENTS_TRUNCATED = "events.truncated", Loss,
        "A turn had more events than are stored; later ones were shown but not stored.",
        "No action needed: the reply is complete, and the agent's own log has the other events.";
    REPLY_REDACTED = "reply.redacted", Loss,
        "Part of a reply is a secret or looks like one; `[redacted]` was stored instead.",
        "If it was a secret, rotate it: an agent has read it. If not, ask for a form that does not look like a key.";
    TURN_INTERRUPTED = "turn.interrupted", Note,
        "The process that ran a turn is gone; another process retries the turn.",
        "No action needed: the partial reply of the first attempt is stored with the turn.";
    LEASE_LOST = "lease.lost", Note,
        "This process was stopped or disconnected for longer than its lease; its turn was cancelled.",
        "No action needed: another process retries the turn. If it happens often, check the network and the load of this machine.";
    STORE_UNREACHABLE = "store.unreachable", Note,
        "The database server cannot be reached; retrying.",
        "Check the network and the server. Messages are kept until the server can be reached; if you leave before, they are printed.";
    ANSWER_LATE = "answer.late", Note,
        "An answer to a question of an agent on another machine had no effect: the question was already answered, or the turn has ended.",
        "No action needed: the conversation shows the answer that was used.";
    MESSAGES_PENDING = "messages.pending", Loss,
        "Messages that were accepted for a session wait to be stored, so the export or the copy does not contain them.",
        "Open the session, which stores them, then export or copy it again: the message names the command.";
    MEMORY_LOST = "memory.lost", Loss,
        "A member with `memory = \"session\"` starts afresh: the session of its program cannot be continued.",
        "No action needed: it gets the whole prompt, with the last messages of the conversation. The message names the reason.";
    THREAD_FORGOTTEN = "thread.forgotten", Loss,
        "A model starts a new thread in the copy of a session, because the old thread cannot be divided at the copied message.",
        "Copy the whole session, without --after, to keep the thread.";
}
