//! Diagnostics of prompt assembly.

crate::diagnostic_codes! {
    CONTEXT_DROPPED = "context.dropped", Loss,
        "The oldest context messages were left out so that the prompt fits its budget.",
        "Raise max-bytes, lower the window, or shorten the messages.";
    MESSAGE_TRUNCATED = "message.truncated", Loss,
        "The end of the current message was cut so that the prompt fits its budget.",
        "Raise max-bytes, or send the long part as a file.";
    INSTRUCTIONS_TRUNCATED = "instructions.truncated", Loss,
        "The middle of the instruction file's text was cut so that the prompt fits its budget.",
        "Raise max-bytes, or shorten the instruction file.";
    TEAM_TASK_TRUNCATED = "team-task.truncated", Loss,
        "The team task was longer than 5 KiB and its end was cut.",
        "Shorten the task to 5 KiB and put the rest into a file.";
    AGENT_UNKNOWN = "agent.unknown", Note,
        "No assembler is known for this agent type; plain text was used.",
        "Use claude, codex, gemini or plain, or register an assembler.";
    CONTENT_FORGED = "content.forged", Note,
        "A line of content looks like a section header or like another speaker's line.",
        "Set `fence = true`: content is then indented, so that it cannot imitate a header or a speaker.";
    CONTENT_ESCAPED = "content.escaped", Note,
        "`@` was escaped as `\\@`, or a header was put before a leading `/`, because the agent's program would act on it.",
        "Nothing was lost; the model sees the backslash or the header too.";
    MARKER_EMPTY = "marker.empty", Note,
        "A marker without a value was removed and had no effect.",
        "Name a member in the marker, or leave it out.";
    SNAPSHOT_DUPLICATE_ID = "snapshot.duplicate-id", Note,
        "Two messages of an imported snapshot have the same id; both were kept.",
        "Give each message its own id.";
    TEXT_CLOSES_WRAPPER = "text.closes-wrapper", Loss,
        "A file contains the closing tag of the instructions, so the rest of the file falls outside the instructions.",
        "Remove the tag from the file, or write it differently.";
    FILE_TOO_LARGE = "file.too-large", Loss,
        "A file is larger than the agent accepts: the file is dropped, or no request is sent.",
        "Shorten the file, or split it and import the parts where they are needed.";
    FILE_UNREADABLE = "file.unreadable", Loss,
        "A file or directory cannot be read and is left out.",
        "Make it readable, or remove it.";
}
