//! Diagnostics: everything that was cut, dropped, skipped or replaced says so, under a stable code.
//!
//! The table at the top is the one place that describes a code. Help, documentation, `--deny` and
//! the JSON form are all read from it.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

macro_rules! codes {
    ($($variant:ident = $name:literal, $meaning:literal, $fix:literal;)+) => {
        /// A stable diagnostic code, for example `context.dropped`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $meaning] $variant,)+
        }

        impl Code {
            /// Every code, in the order in which they are documented.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)+];

            /// Returns the name that users see and type.
            pub const fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)+ }
            }

            /// Returns what the code means, as one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Code::$variant => $meaning,)+ }
            }

            /// Returns what a user can do about it, as one sentence.
            pub const fn fix(self) -> &'static str {
                match self { $(Code::$variant => $fix,)+ }
            }
        }
    };
}

codes! {
    ContextDropped = "context.dropped",
        "The oldest context messages were left out so that the prompt fits its budget.",
        "Raise max-bytes, lower the window, or shorten the messages.";
    MessageTruncated = "message.truncated",
        "The end of the current message was cut so that the prompt fits its budget.",
        "Raise max-bytes, or send the long part as a file.";
    InstructionsTruncated = "instructions.truncated",
        "The middle of the instruction file's text was cut so that the prompt fits its budget.",
        "Raise max-bytes, or shorten the instruction file.";
    TeamTaskTruncated = "team-task.truncated",
        "The team task was longer than 5 KiB and its end was cut.",
        "State the task in 5 KiB and put the rest into a file.";
    AgentUnknown = "agent.unknown",
        "No assembler is known for this agent type; plain text was used.",
        "Use claude, codex, gemini or plain, or register an assembler.";
    ContentForged = "content.forged",
        "A line of somebody's content looks like a section header or like another speaker's line.",
        "Set fence = true to indent content, so that no line of it can begin a line of ours.";
    MarkerEmpty = "marker.empty",
        "A marker without a value was removed and means nothing.",
        "Name somebody in the marker, or leave it out.";
    MarkerUnresolved = "marker.unresolved",
        "A marker names somebody who is not in the team.",
        "Use a member's id, name or display name.";
    MarkerIgnored = "marker.ignored",
        "A marker was not obeyed because its speaker may not use it.",
        "Only people may say who speaks; an agent is known by its turn.";
    QueueFull = "queue.full",
        "A message called more members than the queue has room for; the last ones were left out.",
        "Raise limits.queue, or drop what is queued with [DROP: ALL].";
    EventsTruncated = "events.truncated",
        "A turn had more events than are kept; the later ones were shown and not stored.",
        "Nothing of the reply is missing; look into the agent's own log for the rest.";
    ReplyRedacted = "reply.redacted",
        "A part of a reply is a secret, or has the form of one, and `[redacted]` was stored in its place.",
        "Nothing, if it was a secret: change it, since an agent has read it; else have it spelt another way.";
    SnapshotDuplicateId = "snapshot.duplicate-id",
        "Two messages of an imported snapshot have the same id; both were kept.",
        "Give each message its own id.";
    AgentsMdTruncated = "agents-md.truncated",
        "An instruction file was cut, or left out, because the budget of all of them was used up.",
        "Raise project_doc_max_bytes, or shorten the files nearer to the root.";
    AgentsMdUnreadable = "agents-md.unreadable",
        "An instruction file could not be read; in Codex that loses all files of the chain.",
        "Make the file readable, or remove it.";
    AgentsMdNotUtf8 = "agents-md.not-utf8",
        "An instruction file is not valid UTF-8; the bytes in question were replaced.",
        "Save the file as UTF-8.";
    AgentsMdUntrusted = "agents-md.untrusted",
        "The project is marked as untrusted, so its instruction files are not sent.",
        "Set trust_level = \"trusted\" for the project in config.toml.";
    ConfigIgnored = "config.ignored",
        "A key of the configuration has no effect.",
        "Remove it, or use the key that replaced it.";
    RulesInvalid = "rules.invalid",
        "A file of command rules could not be read, so its approved prefixes are not listed.",
        "Correct the file, or remove it.";
    RulesTruncated = "rules.truncated",
        "The list of approved command prefixes was cut.",
        "Approve fewer and shorter prefixes.";
    SkillInvalid = "skill.invalid",
        "A skill's file says too little or too much about itself, so the skill is not listed.",
        "Give it a name of at most 64 and a description of at most 1024 characters between --- lines.";
    SkillUnreadable = "skill.unreadable",
        "A skill could not be read, so its text is not sent.",
        "Make its SKILL.md readable, or do not mention it.";
    SkillAmbiguous = "skill.ambiguous",
        "Several skills have the mentioned name, so none of them is sent.",
        "Mention it by its path: [$name](path).";
    SkillsLimited = "skills.limited",
        "A skills folder holds more folders than are looked at.",
        "Keep skills in at most 2000 folders, six levels deep.";
    ImageUnusable = "image.unusable",
        "An image could not be attached; a text says so in its place.",
        "Use a readable PNG or JPEG file.";
    OutputTruncated = "output.truncated",
        "The middle of a tool's output was cut by the model's policy.",
        "Let the tool print less, or raise tool_output_token_limit in config.toml.";
    OutputOrphaned = "output.orphaned",
        "An output whose call is not in the history was left out.",
        "Keep a call together with its output.";
    OutputMissing = "output.missing",
        "A call without an output was answered with `aborted`.",
        "Keep a call together with its output.";
    ItemDropped = "item.dropped",
        "An item of a kind that is not sent was left out of the history.",
        "Nothing: system messages and unknown items never reach the model.";
    CompactionTruncated = "compaction.truncated",
        "Compaction left out or cut user messages that did not fit into 20,000 tokens.",
        "Compact earlier.";
    ToolsUnmapped = "tools.unmapped",
        "A tool that is no function cannot be offered on the Chat wire and was left out.",
        "Use the Responses wire, or describe the tool as a function.";
    ToolsMissing = "tools.missing",
        "The request offers no tools, because none were named; Codex itself would offer its own.",
        "Name a file with the tools: --tools FILE.";
    ModelUnknown = "model.unknown",
        "Nothing is known of a model's name, so the facts of just any model were used.",
        "Correct the name, or say how much it holds: model_context_window, or an agent's context-window.";
    ThreadCompacts = "thread.compacts",
        "The thread has reached its limit, so the next request asks for a summary and not for an answer.",
        "Nothing: the prompt follows with the request after it.";
    ThreadTextWithdrawn = "thread.text-withdrawn",
        "Instructions that a model was given in an earlier turn are no longer there, and cannot be unsaid.",
        "Begin a new thread, or tell the model what holds instead.";
    ThreadCompacted = "thread.compacted",
        "A thread was compacted: a summary stands for what was said before.",
        "Nothing: what it replaced is kept, and the compaction can be undone.";
    ThreadCompactionFailed = "thread.compaction-failed",
        "A thread had reached its limit and could not be compacted; it went on as it was.",
        "Read the reason; compact again, or begin a new thread.";
    ThreadCompactionUseless = "thread.compaction-useless",
        "A thread was compacted and is still over its limit.",
        "Shorten the instructions, or use a model with a larger context window.";
    ThreadRequestUnreadable = "thread.request-unreadable",
        "The last request that a model was sent cannot be read back, so how much has changed since is not known.",
        "Nothing for the conversation; check the disk that the sessions are on.";
    ThreadTurnRetried = "thread.turn-retried",
        "A turn was taken once more; what an earlier attempt at it had left in the thread is passed over.",
        "Nothing: the lines of the earlier attempt stay in the store.";
    ThreadForgotten = "thread.forgotten",
        "A model begins a new thread in the copy of a session, because nobody knows how much of the old one the copy may have.",
        "Copy the whole session, without --after, to keep the thread.";
    RecordTorn = "record.torn",
        "The last line of a thread's file was cut off and was left out.",
        "Nothing: the program that wrote it was stopped while writing.";
    RecordInvalid = "record.invalid",
        "A line of a thread's file could not be understood and was left out.",
        "Use a file of the supported version.";
    AgentsMdBlank = "agents-md.blank",
        "A blank file keeps Codex from the other instruction files of its directory.",
        "Remove the blank file, or write the instructions into it.";
    ProjectFileOutside = "project-file.outside",
        "A file of a project that is not trusted is a link that leads out of it, and was not read.",
        "Trust the project with `convoke trust`, or put the file itself in the place of the link.";
    ImportOutside = "import.outside",
        "An import leads out of the directory that the agent allows, and is not loaded.",
        "Start the agent where the imported file lies in or below its directory, or move the file there.";
    ImportNotTaken = "import.not-taken",
        "An @path that is meant as an import is none in this form, for this kind of file, or this deep.",
        "Put white space on both sides of the @path, and name a plain text file such as .md.";
    ImportMissing = "import.missing",
        "An import names a file that cannot be read.",
        "Correct the path, or remove the @.";
    ImportProse = "import.prose",
        "Gemini CLI takes an @word for an import and puts an error comment in its place.",
        "Write the word in backticks.";
    ImportInComment = "import.in-comment",
        "Gemini CLI expands an import inside a comment or indented code; Claude Code does not.",
        "Put it into a code fence or backticks, or remove the @.";
    TextDropped = "text.dropped",
        "Claude Code drops front matter, block comments and, in a file with any comment, link definitions; the other agents send them.",
        "Keep nothing there that every agent must know, and nothing that none may see.";
    TextTwice = "text.twice",
        "The same text reaches the model twice.",
        "Use a symbolic link in place of an import or a copy, or remove one of the two.";
    TextClosesWrapper = "text.closes-wrapper",
        "A file holds the mark that ends the instructions, so what follows it stands outside of them.",
        "Remove the mark from the file, or write it in another way.";
    ParentsAboveRoot = "parents.above-root",
        "Claude Code also loads files above the repository's root; the other agents stop at it.",
        "Move what the team shares into the repository, or exclude the file with claudeMdExcludes.";
    ParentsWithoutRoot = "parents.without-root",
        "No repository lies around this directory, so only Claude Code loads the files above it.",
        "Run `git init` in the project's root, or keep a file in the working directory itself.";
    NamesUnread = "names.unread",
        "Instructions stand here under a name that this agent does not read.",
        "Link the agent's own name to the file; for Claude Code a CLAUDE.md with the line @AGENTS.md does too.";
    NamesAddUp = "names.add-up",
        "context.fileName adds a name, and GEMINI.md is loaded as well.",
        "Remove one of the two files, or make it a link to the other.";
    NamesCase = "names.case",
        "A file's name is right but for its case, so that it is not loaded.",
        "Rename the file to exactly the name that the agent reads.";
    NamesPlace = "names.place",
        "A file has a name that the agent reads, in a place where it does not look.",
        "Move the file to where the agent looks for it.";
    OrderByName = "order.by-name",
        "Gemini CLI sorts by path, so that a nested file comes before the one above it.",
        "Begin the directory's name with a lower-case letter, or say in the files which of them wins.";
    RulesUnordered = "rules.unordered",
        "The order of these rule files depends on the file system.",
        "Let no rule rely on its place; put text that has an order into one file.";
    RulesConditional = "rules.conditional",
        "A rule is absent until a file that matches its paths is read.",
        "Remove paths: from its front matter to load it always.";
    RulesCursorKeys = "rules.cursor-keys",
        "globs: and alwaysApply: are keys of another tool, so the rule is always loaded.",
        "Use paths: in their place.";
    RulesFrontMatter = "rules.front-matter",
        "A rule's front matter is no YAML, so its paths: do not count and the rule is always loaded.",
        "Quote the values that begin with * or hold a colon, and indent with spaces.";
    RulesPattern = "rules.pattern",
        "A pattern of paths: makes no sense, which loses every rule with paths: of its directory.",
        "Correct the pattern: the ends of a [range] must be in order, and its brackets must close.";
    RulesUnsearched = "rules.unsearched",
        "A rules directory holds more than is looked at, so this report does not cover all of it.",
        "Keep only rules in the rules directory.";
    FileTooLarge = "file.too-large",
        "A file is larger than the agent takes: it is dropped, or no request is made at all.",
        "Shorten the file, or split it and import the parts where they are needed.";
    FileUtf16 = "file.utf16",
        "A file is UTF-16 and arrives as garbage.",
        "Save the file as UTF-8.";
    FileUnreadable = "file.unreadable",
        "A file or directory cannot be read and is left out in silence.",
        "Make it readable, or remove it.";
    AddedDirectoryUnread = "added-directory.unread",
        "A directory that was added to the session brings no instructions.",
        "For Claude Code set CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD=1; for Codex start in the directory.";
    AddedDirectorySorted = "added-directory.sorted",
        "The instructions of an added directory stand before the project's own.",
        "Leave the directory out, or say in the files which of them wins.";
    AddedDirectoryMissing = "added-directory.missing",
        "A directory that was added to the workspace does not exist, so Gemini CLI ends before any request.",
        "Create the directory, or take it out of context.includeDirectories.";
    WorktreeNested = "worktree.nested",
        "In a worktree inside its main checkout, Claude Code skips that checkout's files but CLAUDE.local.md.",
        "Keep worktrees beside the main checkout.";
    SubmoduleOuter = "submodule.outer",
        "In a submodule, Claude Code also loads the outer repository's files; the other agents do not.",
        "Repeat in the submodule what all agents must know.";
    RootStray = "root.stray",
        "A .git that is no repository cuts Gemini CLI and Codex off from the files above it.",
        "Remove the stray .git.";
    RootIsHome = "root.is-home",
        "The home directory is a repository, so its files count in every directory that has none.",
        "Run `git init` in the project, or move the instructions out of the home directory.";
    ExcludesUserFile = "excludes.user-file",
        "The project's settings exclude the user's own instructions.",
        "Narrow the pattern in claudeMdExcludes to the project's files.";
    ExcludesNothing = "excludes.nothing",
        "A pattern of claudeMdExcludes matches nothing, because it is compared with absolute paths.",
        "Begin the pattern with / or **/.";
    VersionsDiffer = "versions.differ",
        "Codex 0.98 and Codex 0.166 load different files here.",
        "Check the files that are listed before you upgrade, or agree on one version.";
    MemoryLoaded = "memory.loaded",
        "Notes that the agent wrote for itself are loaded too.",
        "Read the file now and then, and remove what is no longer true.";
    MemoryTruncated = "memory.truncated",
        "Only the beginning of the agent's notes is loaded.",
        "Keep MEMORY.md under 200 lines and 25,000 bytes.";
    FolderUntrusted = "folder.untrusted",
        "Gemini CLI makes no request from a folder that is not trusted.",
        "Trust the folder in an interactive session, pass --skip-trust, or set GEMINI_CLI_TRUST_WORKSPACE=true.";
    SettingsElsewhere = "settings.elsewhere",
        "Settings of a directory above this one are not read from here.",
        "Start the agent in that directory, or move the setting to the user's own settings.";
    SettingsMalformed = "settings.malformed",
        "A settings file is malformed: the agent passes it over, or does not start with it.",
        "Correct the file; the agent itself may refuse to start with it.";
    AgentEventUnknown = "agent.event-unknown",
        "An agent sent a kind of event that this version does not know; it was kept and passed over.",
        "Nothing is lost; update Convoke if the agent was updated.";
    AgentNotice = "agent.notice",
        "An agent reported a problem of its own and went on.",
        "Read what it says.";
    AgentOutputNoise = "agent.output-noise",
        "An agent wrote lines among its events that are no events; they were passed over.",
        "Look for a shell profile or a wrapper that prints to standard output.";
    AgentOutputDamaged = "agent.output-damaged",
        "An agent's output held bytes that are not UTF-8; they were replaced by U+FFFD.",
        "Check what the agent printed; the rest of the text is untouched.";
    AgentLineTooLong = "agent.line-too-long",
        "An agent wrote a line over the limit; the line was left out.",
        "Raise the line limit if the agent really sends events of that size.";
    AgentReplyTruncated = "agent.reply-truncated",
        "An agent's reply was over the limit and its end was cut.",
        "Raise the reply limit, or ask for a file instead of a long reply.";
    AgentSessionAnew = "agent.session-anew",
        "A session was to be resumed and the agent began a new one.",
        "Send the whole context again; the agent does not remember the earlier turns.";
    AgentTextNotInert = "agent.text-not-inert",
        "The agent's program may act on something in the text instead of passing it on.",
        "Rephrase the text, or use an agent whose program passes all text on.";
    AgentTextEscaped = "agent.text-escaped",
        "Text that the agent's program would have acted on was sent with an escape in front.",
        "Nothing was run or read; the model sees the escape as well.";
    AgentSystemReplaced = "agent.system-replaced",
        "The system text replaces the agent's own instead of standing beside it.",
        "Put the text into the prompt, or accept that the agent works without its own instructions.";
    AgentSystemKept = "agent.system-kept",
        "A resumed session can keep the system text that it began with and pass over a new one.",
        "Put what has changed into the prompt, or begin a new session.";
    AgentAnsweredItself = "agent.answered-itself",
        "The agent's program answered without asking its model.",
        "The text was taken for a command of the program; rephrase its beginning.";
    AgentToolDenied = "agent.tool-denied",
        "The agent wanted to use a tool that its permissions do not allow.",
        "Widen the member's permissions if it should.";
    AgentProcessesLeft = "agent.processes-left",
        "The agent ended and left processes behind; they were ended.",
        "Nothing, unless they were meant to stay: start those outside of the agent.";
    AgentTasksEnded = "agent.tasks-ended",
        "Shells that the agent left running in the background were ended after its reply.",
        "Start programs that are meant to stay outside of the agent, or have the agent wait for them.";
    AgentExitDisagrees = "agent.exit-disagrees",
        "The agent said that its turn was done and its program ended with an error.",
        "Nothing, if the reply is whole; the program's error output may say more.";
    AgentSettingRefused = "agent.setting-refused",
        "A project's file sets something that only the user may set until the project is trusted.",
        "Trust the directory, or set it in your own configuration.";
    AgentKeyWithheld = "agent.key-withheld",
        "The agent's key was not sent, because its file names the key for another server.",
        "Name the variable with --key-env, if that server may have the key.";
    AgentInstructionsUnread = "agent.instructions-unread",
        "An agent is started as in a directory that it does not trust, so it leaves the project's AGENTS.md out.",
        "Trust the directory (convoke trust), or leave protocol = \"exec\" out.";
    RehearsalStandIn = "rehearsal.stand-in",
        "A member's program cannot be rehearsed with here; the built-in stand-in spoke in its place.",
        "Install the program, or rehearse with the stand-in alone: --rehearse.";
    RehearsalChanged = "rehearsal.changed",
        "What reached the model is not, byte for byte, what was sent.",
        "Compare the two with `convoke sessions show` and `convoke capture`.";
    CaptureElsewhere = "capture.elsewhere",
        "The captured program wanted to reach hosts beside its model; nothing was let out.",
        "Nothing to do; the program's own settings say whether it may report to its vendor.";
    CaptureFailed = "capture.failed",
        "The captured program ended with an error; what it had sent by then is shown.",
        "Run the command by itself, or read its last words.";
    CaptureTimedOut = "capture.timed-out",
        "The captured program did not end in time and was killed; what it had sent by then is shown.",
        "Give it more time with --timeout.";
    DoctorNoAgent = "doctor.no-agent",
        "No agent on this machine would run a turn.",
        "Install and sign in to one of claude, codex and gemini, or use --rehearse.";
    DoctorNotInstalled = "doctor.not-installed",
        "An agent is not installed.",
        "Install it, or leave it out of the team.";
    DoctorVersionUnknown = "doctor.version-unknown",
        "An agent does not say its version.",
        "Run it with --version and see what it says.";
    DoctorVersionUnmeasured = "doctor.version-unmeasured",
        "An agent's version is not one that Convoke was measured with.",
        "It may well work; install a measured version if something is odd.";
    DoctorInterpreterMissing = "doctor.interpreter-missing",
        "An agent is a script whose interpreter is not there.",
        "Install the interpreter, or add its directory to the PATH.";
    DoctorShadowed = "doctor.shadowed",
        "An agent is installed more than once, and one copy hides the other.",
        "Remove one of them, or name the one that you mean by its path.";
    DoctorNotSignedIn = "doctor.not-signed-in",
        "Nothing points to an agent being signed in.",
        "Sign in to it, or give it a key.";
    DoctorKeyIgnored = "doctor.key-ignored",
        "A key is set that the agent does not read.",
        "Set the variable that it reads.";
    DoctorSignInConflict = "doctor.sign-in-conflict",
        "An agent has a key beside a sign-in, and uses the key.",
        "Unset the key, if the subscription is to pay.";
    DoctorCredentialsExposed = "doctor.credentials-exposed",
        "A file with credentials can be read by other users.",
        "Take the others' permissions away.";
    DoctorLimitLow = "doctor.limit-low",
        "A limit of this machine is too low for a team of agents.",
        "Raise the limit.";
    DoctorConfiguration = "doctor.configuration",
        "The user's own agents.toml cannot be read, so that every run is refused.",
        "Correct what the message names; docs/agents.md has the keys.";
    DoctorTemporaryDirectory = "doctor.temporary-directory",
        "The directory for temporary files cannot be written to.",
        "Set TMPDIR to one that can.";
    DoctorRoot = "doctor.root",
        "This is the root user, for whom some agents refuse some permissions.",
        "Run as another user, or set IS_SANDBOX=1 in a sandbox.";
    DoctorProxy = "doctor.proxy",
        "The settings of the proxy contradict each other, or catch what is on this machine.",
        "Set them alike, and add 127.0.0.1,localhost to NO_PROXY.";
    DoctorRedirected = "doctor.redirected",
        "A variable sends an agent's calls to another address than its vendor's.",
        "Unset it, if that is not meant.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// No diagnostic has this code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown diagnostic code `{0}`")]
pub struct UnknownCode(pub String);

impl FromStr for Code {
    type Err = UnknownCode;

    fn from_str(name: &str) -> Result<Self, UnknownCode> {
        let found = Self::ALL.iter().find(|code| code.name() == name);
        found.copied().ok_or_else(|| UnknownCode(name.to_owned()))
    }
}

/// One thing that a user should know about an assembly: what happened, where, and how much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// What kind of thing happened.
    pub code: Code,
    /// The same in words, with the figures of this case.
    pub message: String,
    /// The section of the text that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<&'static str>,
    /// How many things were affected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// How many bytes were affected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The file that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The 1-based line that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

impl Diagnostic {
    /// Creates a diagnostic that carries nothing but its message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            section: None,
            count: None,
            bytes: None,
            path: None,
            line: None,
        }
    }

    /// Names the section that it concerns.
    #[must_use]
    pub fn in_section(mut self, section: &'static str) -> Self {
        self.section = Some(section);
        self
    }

    /// Says how many things were affected.
    #[must_use]
    pub fn with_count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// Says how many bytes were affected.
    #[must_use]
    pub fn with_bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Names the file that it concerns.
    #[must_use]
    pub fn at_path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Names the 1-based line that it concerns.
    #[must_use]
    pub fn at_line(mut self, line: u64) -> Self {
        self.line = Some(line);
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_by_its_own_name() {
        for &code in Code::ALL {
            assert_eq!(code.name().parse(), Ok(code));
        }
    }

    #[test]
    fn an_unknown_code_is_refused_by_name() {
        let refused = "context.gone".parse::<Code>().unwrap_err();
        assert_eq!(refused.to_string(), "unknown diagnostic code `context.gone`");
    }

    #[test]
    fn absent_details_are_left_out_of_the_json() {
        let diagnostic = Diagnostic::new(Code::ContextDropped, "2 messages were left out")
            .in_section("CONTEXT")
            .with_count(2);
        assert_eq!(
            serde_json::to_string(&diagnostic).unwrap(),
            r#"{"code":"context.dropped","message":"2 messages were left out","section":"CONTEXT","count":2}"#
        );
    }
}
