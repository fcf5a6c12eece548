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
        "Nothing, the reply is complete; the agent's own log has the other events.";
    REPLY_REDACTED = "reply.redacted", Loss,
        "Part of a reply is a secret or looks like one; `[redacted]` was stored instead.",
        "If it was a secret, rotate it: an agent has read it. If not, ask for a form that does not look like a key.";
    TURN_INTERRUPTED = "turn.interrupted", Note,
        "The process that ran a turn went away, and another one runs the turn again.",
        "Nothing; the partial reply of the first attempt is stored with it.";
    LEASE_LOST = "lease.lost", Note,
        "This process was stopped or cut off for so long that another one may hold the session; its turn was ended.",
        "Nothing, the turn runs again elsewhere; if it happens often, look at the network and at the load of this machine.";
    ANSWER_LATE = "answer.late", Note,
        "An answer to a question of an agent on another machine had no effect: somebody else was first, or the turn has ended.",
        "Nothing; the conversation shows the answer that counted.";
    THREAD_FORGOTTEN = "thread.forgotten", Loss,
        "A model starts a new thread in the copy of a session, because the old thread cannot be divided at the copied message.",
        "Copy the whole session, without --after, to keep the thread.";
}
