//! Diagnostics of `capture`, `doctor` and the record of requests.

convoke_core::diagnostic_codes! {
    RECORD_FAILED = "record.failed", Loss,
        "The requests of a turn could not be stored.",
        "The message names the reason; `convoke sessions show --request` shows the requests stored before.";
    RECORD_LIMIT = "record.limit", Loss,
        "A turn sent more requests, or larger ones, than are stored.",
        "No action needed: the turn continued, and its first requests are stored.";
    RECORD_DROPPED = "record.dropped", Loss,
        "The bodies of the oldest requests of a watched program were dropped, because all together took more than the limit.",
        "Give the record more room with `convoke watch --max-disk`.";
    RECORD_UNAVAILABLE = "record.unavailable", Loss,
        "The requests of a member are not recorded: Convoke cannot point its program to a relay.",
        "Use an agent whose requests can be recorded, or turn recording off for this member.";
    RELAY_HOST_REFUSED = "relay.host-refused", Note,
        "A program whose requests are recorded tried to reach a host other than its model and its sign-in; the relay refused the connection.",
        "No action needed if it is telemetry; `permissions = \"edit-and-network\"` lets the program and its commands reach every host.";
    RELAY_FAILED = "relay.failed", Note,
        "A recorded request could not be forwarded, was cut, or was redirected; the message has the reason.",
        "Check the connection to the named host and the program's base URL, and run it again.";
    CAPTURE_ELSEWHERE = "capture.elsewhere", Note,
        "The captured program tried to reach hosts other than its model; all were blocked.",
        "No action needed; turn off telemetry in the program's settings if it should not report to its vendor.";
    CAPTURE_FAILED = "capture.failed", Error,
        "The captured program ended with an error; its requests up to then are shown.",
        "Run the command without `convoke capture`, or read its error output.";
    CAPTURE_TIMED_OUT = "capture.timed-out", Error,
        "The captured program exceeded its time limit and was killed; its requests up to then are shown.",
        "Give it more time with --timeout.";
    CAPTURE_TRUST_SUPPLIED = "capture.trust-supplied", Note,
        "The program makes no request in a directory that it does not trust, so the capture marked it as trusted.",
        "To use the program here, trust the directory in the program.";
    CAPTURE_PROMPT_SUPPLIED = "capture.prompt-supplied", Note,
        "The captured command had no prompt; one was written to its standard input.",
        "Pass the prompt as an argument of the command, or with --stdin.";
    CAPTURE_LEFT_OUT = "capture.left-out", Loss,
        "A part of the user's configuration was not copied into the private home, so the request lacks what it adds.",
        "No action needed unless the request must be complete; then record a real run.";
    CAPTURE_COMMANDS_WITHHELD = "capture.commands-withheld", Loss,
        "Commands that the project's own settings name (hooks, MCP servers), or the user's own that go with them, were not run, because the project is not trusted.",
        "Review them, then trust the directory: `convoke trust`.";
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
        "Convoke was not tested with this version of an agent.",
        "It will probably work; if not, install a tested version.";
    DOCTOR_FLAG_GONE = "doctor.flag-gone", Error,
        "An agent's version refuses a flag that Convoke starts it with.",
        "Install a version that Convoke was tested with, or a newer Convoke.";
    DOCTOR_EVENT_CHANGED = "doctor.event-changed", Error,
        "An agent's version lacks an event that Convoke reads, or writes an unknown one.",
        "Install a version that Convoke was tested with, or a newer Convoke.";
    DOCTOR_TRIAL_PASSED = "doctor.trial-passed", Note,
        "A rehearsed turn with an untested version of an agent succeeded, offline and in a private home.",
        "No action needed; `convoke explain --verify` compares the files that it reads.";
    DOCTOR_TRIAL_FAILED = "doctor.trial-failed", Error,
        "A rehearsed turn of an agent failed, offline and in a private home.",
        "Run the agent without Convoke and read its output.";
    EXPLAIN_DIFFERS = "explain.differs", Error,
        "An installed program sends instructions that differ from those that `explain` lists.",
        "The program's request is authoritative: `convoke request --agent` shows it.";
    DOCTOR_INTERPRETER_MISSING = "doctor.interpreter-missing", Error,
        "An agent is a script whose interpreter is not installed.",
        "Install the interpreter, or add its directory to the PATH.";
    DOCTOR_SHADOWED = "doctor.shadowed", Note,
        "An agent is installed more than once, and one copy hides the other.",
        "Remove one of them, or configure the path of the other.";
    DOCTOR_IN_PROJECT = "doctor.in-project", Note,
        "A program with an agent's name is in a directory of the project that is on the PATH. It is not run.",
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
    DOCTOR_SIGN_IN_UNASKED = "doctor.sign-in-unasked", Note,
        "An agent could not be asked whether it is signed in.",
        "The message says why. Ask it yourself, for example with `codex login status`.";
    DOCTOR_CREDENTIALS_EXPOSED = "doctor.credentials-exposed", Error,
        "A file with credentials can be read by other users.",
        "Remove the permissions of other users.";
    DOCTOR_LIMIT_LOW = "doctor.limit-low", Note,
        "A limit of this machine is too low for a team of agents.",
        "Raise the limit.";
    DOCTOR_TEMPORARY_DIRECTORY = "doctor.temporary-directory", Error,
        "The directory for temporary files cannot be written to.",
        "Set TMPDIR to a writable directory.";
    DOCTOR_ROOT = "doctor.root", Error,
        "Convoke runs as root; some agents refuse some permissions for root.",
        "Run as another user, or set IS_SANDBOX=1 in a sandbox.";
    DOCTOR_PROXY = "doctor.proxy", Note,
        "The proxy settings contradict each other, or apply to addresses on this machine.",
        "Give them the same value, and add 127.0.0.1,localhost to NO_PROXY.";
    DOCTOR_REDIRECTED = "doctor.redirected", Note,
        "A variable redirects an agent's requests to an address other than its vendor's.",
        "Unset it if this is not intended.";
}
