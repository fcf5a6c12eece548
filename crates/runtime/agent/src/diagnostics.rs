//! Diagnostics of agents and their turns.

convoke_core::diagnostic_codes! {
    AGENT_EVENT_UNKNOWN = "agent.event-unknown", Note,
        "An agent sent an event of an unknown kind; it was stored and skipped.",
        "Update Convoke if the agent was updated; the event is stored with the turn and is not part of the reply.";
    AGENT_NOTICE = "agent.notice", Note,
        "An agent reported a problem or a change of mode, and continued.",
        "Read the agent's message.";
    AGENT_OUTPUT_NOISE = "agent.output-noise", Note,
        "An agent wrote lines that are not events; they were skipped.",
        "Look for a shell profile or a wrapper that prints to standard output.";
    AGENT_OUTPUT_DAMAGED = "agent.output-damaged", Loss,
        "An agent's output contained invalid UTF-8, which was replaced by U+FFFD.",
        "Check the agent's output; the rest of the text is unchanged.";
    AGENT_OUTPUT_UNREADABLE = "agent.output-unreadable", Loss,
        "The system could not read an agent's output to its end; the rest of it is missing.",
        "Run the turn again; the message names the system's error.";
    AGENT_LINE_TOO_LONG = "agent.line-too-long", Loss,
        "An agent wrote a line over the limit; its long texts were cut.",
        "Ask for a file instead of a long reply.";
    AGENT_REPLY_TRUNCATED = "agent.reply-truncated", Loss,
        "An agent's reply was over the limit and its end was cut.",
        "Ask for a file instead of a long reply.";
    AGENT_REPLY_EMPTY = "agent.reply-empty", Note,
        "The agent ended its turn without a reply.",
        "Ask again; the events of the turn show what it did.";
    AGENT_IMAGE_UNSEEN = "agent.image-unseen", Loss,
        "An image of a message was not passed to an agent: its program takes none, or there were too many.",
        "Address the message to a member that can see, or describe the image in words.";
    AGENT_REDACTION_FAILED = "agent.redaction-failed", Loss,
        "Secrets could not be removed from a reply or an event, which was therefore not stored.",
        "Report the error; `convoke run --retry` or `/retry` runs the turn again.";
    AGENT_EVENTS_TRUNCATED = "agent.events-truncated", Loss,
        "The events of a turn contained more text than is stored; the rest was left out.",
        "Ask for a file instead of long output; the reply has its own limit.";
    AGENT_SESSION_ANEW = "agent.session-anew", Loss,
        "The agent started a new session instead of resuming the old one.",
        "Send the whole context again; the agent has lost the earlier turns.";
    AGENT_TEXT_NOT_INERT = "agent.text-not-inert", Note,
        "The agent's program may interpret part of the text as a command.",
        "Rephrase the text, or use another agent.";
    AGENT_TEXT_ESCAPED = "agent.text-escaped", Note,
        "Text that the agent's program would interpret as a command was escaped.",
        "Nothing was run or read; the model sees the escape character too.";
    AGENT_COMMAND_IS_TEXT = "agent.command-is-text", Note,
        "A message begins like a command of the agent's program; it was sent as text.",
        "Run the command in the program itself, or say in words what the agent should do.";
    AGENT_SYSTEM_REPLACED = "agent.system-replaced", Note,
        "The system text replaces the agent's own system text instead of extending it.",
        "Put the text into the prompt, or accept that the agent runs without its own system text.";
    AGENT_SYSTEM_KEPT = "agent.system-kept", Loss,
        "A resumed session may keep its first system text and ignore a new one.",
        "Put the change into the prompt, or start a new session.";
    AGENT_ANSWERED_ITSELF = "agent.answered-itself", Note,
        "The agent's program answered without a request to its model.",
        "The program interpreted the text as a command; rephrase its beginning.";
    AGENT_TOOL_DENIED = "agent.tool-denied", Loss,
        "The agent tried to use a tool that its permissions do not allow.",
        "Widen the member's permissions if it should be allowed.";
    AGENT_PROCESSES_LEFT = "agent.processes-left", Note,
        "The agent left processes running; they were terminated.",
        "Start processes that must outlive the turn outside the agent.";
    AGENT_TASKS_ENDED = "agent.tasks-ended", Note,
        "Shells that the agent left running in the background were terminated after its reply.",
        "Start processes that must outlive the turn outside the agent.";
    AGENT_EXIT_DISAGREES = "agent.exit-disagrees", Note,
        "The agent reported success, but its program exited with an error.",
        "If the reply is complete, no action is needed; otherwise read the program's error output.";
    AGENT_SETTING_REFUSED = "agent.setting-refused", Loss,
        "A project's file has a setting that needs trust, and the project is not trusted.",
        "Trust the directory, or set it in your own configuration.";
    AGENT_GIT_UNSEARCHED = "agent.git-unsearched", Loss,
        "The directory is not trusted and has too many directories to look for git repositories in all of them.",
        "Start the agent in a smaller directory: git could run commands that a repository in it configures.";
    AGENT_INSTRUCTIONS_UNREAD = "agent.instructions-unread", Loss,
        "The directory is not trusted, so an agent is started in a way that withholds instruction files of the project.",
        "Trust the directory: `convoke trust`.";
    AGENT_COMMANDS_CHANGED = "agent.commands-changed", Loss,
        "A file that names commands for agents or git changed since the directory was trusted; the agent is started as if it were not trusted.",
        "Review the file, then run `convoke trust`, which shows what changed.";
    AGENT_COMMANDS_SHARED = "agent.commands-shared", Loss,
        "Another member works in the same directory at the same time and could change files that name commands; the agent is started as if the directory were not trusted.",
        "Give members that may change files their own copies (`workspace = \"own\"`), or run their turns one after another.";
    PERMISSION_DROPPED = "permission.dropped", Loss,
        "The agent's program dropped a question because it asked another one at the same time.",
        "Nothing ran that was not allowed; the agent can ask again. Codex keeps all questions from version 0.99.";
    PERMISSION_PROGRAM_RULES = "permission.program-rules", Loss,
        "An agent that asks a person has rules of its own program that allow commands or tools without a question.",
        "Move the rules to your `permissions.toml`, or remove them.";
    SANDBOX_PARTIAL = "sandbox.partial", Note,
        "Part of a member's permissions is not enforced; the message names it.",
        "`convoke docs permissions` explains it; `require-sandbox = true` refuses turns where this system enforces less than it could.";
    SANDBOX_PATH_MISSING = "sandbox.path-missing", Note,
        "A path that an agent may change does not exist, and the agent cannot create it.",
        "Create it, or remove it from `writable` in agents.toml.";
    SANDBOX_VARIABLES_WITHHELD = "sandbox.variables-withheld", Note,
        "An agent failed after variables whose names look like secrets were withheld from it.",
        "List those that it needs as `variables` of the agent in agents.toml.";
    SANDBOX_SIGN_IN = "sandbox.sign-in-renewed", Note,
        "The agent's program replaced its sign-in with a newer one of the same account, as it does when the old one expires.",
        "If a command of the agent did this and not the program, sign in again.";
    SANDBOX_STOPPED = "sandbox.stopped", Loss,
        "The sandbox stopped a tool of the agent; the agent may have continued without it.",
        "Widen the member's permissions, or add the path or port to the agent in agents.toml, if it should be allowed.";
    CACHE_BROKEN = "cache.broken", Note,
        "A change in what Convoke sends invalidated a prefix that the provider had cached.",
        "`convoke sessions show --cache` names the first difference; keep instructions and tools the same between turns.";
}
