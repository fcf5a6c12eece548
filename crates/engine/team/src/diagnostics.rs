//! Diagnostics of the team file and of the user's files of settings.

convoke_core::diagnostic_codes! {
    TEAM_UNREADABLE = "team.unreadable", Error,
        "The file cannot be read, is too large, or is not UTF-8.",
        "Make it readable, and save it as UTF-8.";
    TEAM_SYNTAX = "team.syntax", Error,
        "The text is not TOML.",
        "Correct the line that the message names.";
    TEAM_UNKNOWN_SETTING = "team.unknown-setting", Error,
        "There is no such setting in this table.",
        "Use the setting that the message suggests, or remove it.";
    TEAM_WRONG_TYPE = "team.wrong-type", Error,
        "The value of a setting has the wrong type.",
        "Write a value of the type that the message names.";
    TEAM_INVALID_VALUE = "team.invalid-value", Error,
        "The value of a setting has the right type but is invalid.",
        "Write a value that the message allows.";
    TEAM_MISSING_SETTING = "team.missing-setting", Error,
        "A required setting is missing.",
        "Add the setting that the message names.";
    TEAM_CONFLICT = "team.conflict", Error,
        "Two settings exclude each other.",
        "Remove one of them.";
    TEAM_DUPLICATE_MEMBER = "team.duplicate-member", Error,
        "Two members have the same name.",
        "Rename one of them.";
    TEAM_UNKNOWN_AGENT = "team.unknown-agent", Error,
        "No agent has this name, neither built in nor in `agents.toml`.",
        "Use the name that the message suggests, or define the agent in `agents.toml`.";
    TEAM_UNUSED_SETTING = "team.unused-setting", Error,
        "Members of this kind do not use the setting.",
        "Remove it, or use the setting that the message suggests.";
    TEAM_BAD_FILE = "team.bad-file", Error,
        "A file or directory that the team file names cannot be used.",
        "Correct the path, or create the file.";
    TEAM_NEEDS_TRUST = "team.needs-trust", Error,
        "An instructions file is outside the project, and the project is not trusted.",
        "Trust the directory with `convoke trust`, or move the file into the project.";
}
