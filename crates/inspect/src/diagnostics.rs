//! Diagnostics of `capture`, `doctor` and the record of requests.

convoke_core::diagnostic_codes! {
    RECORD_FAILED = "record.failed", Loss,
        "The requests of a turn could not be stored.",
        "Read the reason; `convoke sessions show --request` has those that were stored before.";
    RECORD_LIMIT = "record.limit", Loss,
        "A turn sent more requests, or larger ones, than are stored.",
        "Nothing to do: the turn went on, and its first requests are stored.";
    RELAY_HOST_REFUSED = "relay.host-refused", Note,
        "A program whose requests are recorded tried to reach another host than its model and its sign-in; the relay opened no tunnel.",
        "Nothing, if it is telemetry; `permissions = \"edit-and-network\"` lets the program and its commands reach every host.";
    CAPTURE_ELSEWHERE = "capture.elsewhere", Note,
        "The captured program tried to reach other hosts than its model; all were blocked.",
        "Nothing; turn off telemetry in the program's settings if it should not report to its vendor.";
    CAPTURE_FAILED = "capture.failed", Error,
        "The captured program ended with an error; its requests up to then are shown.",
        "Run the command by itself, or read its error output.";
    CAPTURE_TIMED_OUT = "capture.timed-out", Error,
        "The captured program exceeded its time limit and was killed; its requests up to then are shown.",
        "Give it more time with --timeout.";
    CAPTURE_TRUST_SUPPLIED = "capture.trust-supplied", Note,
        "The program would make no request in this directory, and was given the trust that it asks for.",
        "Trust the directory in the program itself, if you want to use it there.";
    CAPTURE_PROMPT_SUPPLIED = "capture.prompt-supplied", Note,
        "The captured command had no prompt, and was given one on its standard input.",
        "Write the prompt behind the command, or give it with --stdin.";
    CAPTURE_LEFT_OUT = "capture.left-out", Loss,
        "A part of the user's configuration was not copied into the private home, so the request lacks what it adds.",
        "Nothing to do, unless the request must be complete; then record a real run.";
    CAPTURE_COMMANDS_WITHHELD = "capture.commands-withheld", Loss,
        "Commands that the project's own settings name (hooks, MCP servers) were not run, because the program's user has not trusted the project.",
        "Start the program here once and trust the directory.";
    DOCTOR_NO_AGENT = "doctor.no-agent", Error,
        "No agent on this machine can run a turn.",
        "Install and sign in to one of claude, codex and gemini, or use --rehearse.";
    DOCTOR_NOT_INSTALLED = "doctor.not-installed", Error,
        "An agent is not installed.",
        "Install it, or leave it out of the team.";
    DOCTOR_VERSION_UNKNOWN = "doctor.version-unknown", Note,
        "The version of an agent is unknown.",
        "Run it with --version.";
    DOCTOR_VERSION_UNMEASURED = "doctor.version-unmeasured", Note,
        "An agent's version is not one that Convoke was measured with.",
        "It will probably work; install a measured version if it does not.";
    DOCTOR_FLAG_GONE = "doctor.flag-gone", Error,
        "An agent's version refuses a flag that Convoke starts it with.",
        "Install a version that Convoke was measured with, or a newer Convoke.";
    DOCTOR_EVENT_CHANGED = "doctor.event-changed", Error,
        "An agent's version does not write an event that Convoke reads, or writes one that it does not know.",
        "Install a version that Convoke was measured with, or a newer Convoke.";
    DOCTOR_TRIAL_PASSED = "doctor.trial-passed", Note,
        "A rehearsed turn of an agent of an unmeasured version went as expected, offline and in a private home.",
        "Nothing to do; `convoke explain --verify` compares the files that it reads.";
    DOCTOR_TRIAL_FAILED = "doctor.trial-failed", Error,
        "A rehearsed turn of an agent failed, offline and in a private home.",
        "Run the agent by itself and see what it says.";
    EXPLAIN_DIFFERS = "explain.differs", Error,
        "An installed program sends other instructions than its explained ones.",
        "Go by what arrived: `convoke request --agent` shows it.";
    DOCTOR_INTERPRETER_MISSING = "doctor.interpreter-missing", Error,
        "An agent is a script whose interpreter is not installed.",
        "Install the interpreter, or add its directory to the PATH.";
    DOCTOR_SHADOWED = "doctor.shadowed", Note,
        "An agent is installed more than once, and one copy hides the other.",
        "Remove one of them, or configure the path of the other.";
    DOCTOR_IN_PROJECT = "doctor.in-project", Note,
        "A program of an agent's name is in a directory of the project that is on the PATH. It is not run.",
        "Install the agent elsewhere, or name the program by its path as `command` in agents.toml.";
    DOCTOR_NOT_SIGNED_IN = "doctor.not-signed-in", Error,
        "No credentials of the agent were found.",
        "Sign in to it, or give it a key.";
    DOCTOR_KEY_IGNORED = "doctor.key-ignored", Note,
        "A key is set that the agent does not read.",
        "Set the variable that it reads.";
    DOCTOR_SIGN_IN_CONFLICT = "doctor.sign-in-conflict", Note,
        "An agent has both a key and a sign-in, and uses the key.",
        "Unset the key to use the subscription.";
    DOCTOR_CREDENTIALS_EXPOSED = "doctor.credentials-exposed", Error,
        "A file with credentials can be read by other users.",
        "Remove the permissions of other users.";
    DOCTOR_LIMIT_LOW = "doctor.limit-low", Note,
        "A limit of this machine is too low for a team of agents.",
        "Raise the limit.";
    DOCTOR_TEMPORARY_DIRECTORY = "doctor.temporary-directory", Error,
        "The directory for temporary files cannot be written to.",
        "Set TMPDIR to one that can.";
    DOCTOR_ROOT = "doctor.root", Error,
        "This is the root user, for whom some agents refuse some permissions.",
        "Run as another user, or set IS_SANDBOX=1 in a sandbox.";
    DOCTOR_PROXY = "doctor.proxy", Note,
        "The proxy settings contradict each other, or apply to addresses on this machine.",
        "Set them alike, and add 127.0.0.1,localhost to NO_PROXY.";
    DOCTOR_REDIRECTED = "doctor.redirected", Note,
        "A variable redirects an agent's requests to another address than its vendor's.",
        "Unset it if this is not intended.";
}
