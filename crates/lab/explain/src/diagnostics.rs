//! Diagnostics of the instruction files that a program loads.

convoke_core::diagnostic_codes! {
    SETTINGS_MALFORMED = "settings.malformed", Error,
        "A settings file is malformed: the agent ignores it, or does not start.",
        "Correct the file; the agent itself may refuse to start with it.";
    IMPORT_OUTSIDE = "import.outside", Loss,
        "An import leads outside of the directory that the agent allows, and is not loaded.",
        "Start the agent in a directory that contains the imported file, or move the file there.";
    FOLDER_UNTRUSTED = "folder.untrusted", Error,
        "Gemini CLI makes no request from a folder that is not trusted.",
        "Trust the folder in an interactive session, pass --skip-trust, or set GEMINI_CLI_TRUST_WORKSPACE=true.";
    NAMES_UNREAD = "names.unread", Loss,
        "An instruction file has a name that this agent does not read.",
        "Link the agent's own name to the file.";
    AGENTS_MD_BLANK = "agents-md.blank", Loss,
        "A blank instruction file makes Codex skip the other instruction files of that directory.",
        "Remove the blank file, or write the instructions into it.";
    IMPORT_NOT_TAKEN = "import.not-taken", Loss,
        "An @path is not imported in this form, for this kind of file, or at this depth.",
        "Put white space on both sides of the @path, and name a plain text file such as .md.";
    IMPORT_MISSING = "import.missing", Loss,
        "An import names a file that cannot be read.",
        "Correct the path, or remove the @.";
    IMPORT_PROSE = "import.prose", Note,
        "Gemini CLI takes an @word for an import and replaces it with an error comment.",
        "Write the word in backticks.";
    IMPORT_IN_COMMENT = "import.in-comment", Note,
        "Gemini CLI expands an import inside a comment or indented code; Claude Code does not.",
        "Put it into a code fence or backticks, or remove the @.";
    TEXT_DROPPED = "text.dropped", Note,
        "Claude Code drops front matter, block comments and, in a file with any comment, link definitions; the other agents send them.",
        "Put nothing there that every agent needs, or that no agent may see.";
    TEXT_TWICE = "text.twice", Note,
        "The same text reaches the model twice.",
        "Use a symbolic link in place of an import or a copy, or remove one of the two.";
    PARENTS_ABOVE_ROOT = "parents.above-root", Note,
        "Claude Code also loads files above the repository's root; the other agents stop at it.",
        "Move what the team shares into the repository, or exclude the file with claudeMdExcludes.";
    PARENTS_WITHOUT_ROOT = "parents.without-root", Note,
        "This directory is not in a repository, so only Claude Code loads the files above it.",
        "Run `git init` in the project's root, or keep a file in the working directory itself.";
    NAMES_ADD_UP = "names.add-up", Note,
        "context.fileName adds a name, and GEMINI.md is loaded as well.",
        "Remove one of the two files, or make it a link to the other.";
    NAMES_CASE = "names.case", Loss,
        "A file's name differs in case from the name that the agent reads, so it is not loaded.",
        "Rename the file to exactly the name that the agent reads.";
    NAMES_PLACE = "names.place", Loss,
        "A file has a name that the agent reads, but is in a directory where the agent does not look.",
        "Move the file to where the agent looks for it.";
    ORDER_BY_NAME = "order.by-name", Note,
        "Gemini CLI sorts by path, so that a nested file comes before the one above it.",
        "Begin the directory's name with a lower-case letter, or say in the files which of them wins.";
    RULES_UNORDERED = "rules.unordered", Note,
        "The order of these rule files depends on the file system.",
        "Do not rely on the order of rules; put text that has an order into one file.";
    RULES_CONDITIONAL = "rules.conditional", Note,
        "A rule is absent until a file that matches its paths is read.",
        "Remove paths: from its front matter to load it always.";
    RULES_CURSOR_KEYS = "rules.cursor-keys", Note,
        "globs: and alwaysApply: are keys of another tool, so the rule is always loaded.",
        "Use paths: in their place.";
    RULES_FRONT_MATTER = "rules.front-matter", Loss,
        "A rule's front matter is not valid YAML, so its `paths:` are ignored and the rule is always loaded.",
        "Quote the values that begin with * or hold a colon, and indent with spaces.";
    RULES_PATTERN = "rules.pattern", Error,
        "A pattern of `paths:` is invalid, which disables every rule with `paths:` in its directory.",
        "Correct the pattern: the ends of a [range] must be in order, and its brackets must close.";
    RULES_UNSEARCHED = "rules.unsearched", Loss,
        "A rules directory holds more files than this report covers.",
        "Keep only rules in the rules directory.";
    FILE_UTF16 = "file.utf16", Error,
        "A file is UTF-16 and arrives as garbage.",
        "Save the file as UTF-8.";
    ADDED_DIRECTORY_UNREAD = "added-directory.unread", Loss,
        "A directory that was added to the session adds no instructions.",
        "For Claude Code set CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD=1; for Codex start in the directory.";
    ADDED_DIRECTORY_SORTED = "added-directory.sorted", Note,
        "The instructions of an added directory come before the project's own.",
        "Leave the directory out, or say in the files which of them wins.";
    ADDED_DIRECTORY_MISSING = "added-directory.missing", Error,
        "A directory that was added to the workspace does not exist, so Gemini CLI ends before any request.",
        "Create the directory, or take it out of context.includeDirectories.";
    WORKTREE_NESTED = "worktree.nested", Note,
        "In a worktree inside its main checkout, Claude Code skips all files of that checkout except CLAUDE.local.md.",
        "Keep worktrees beside the main checkout.";
    SUBMODULE_OUTER = "submodule.outer", Note,
        "In a submodule, Claude Code also loads the outer repository's files; the other agents do not.",
        "Repeat in the submodule what all agents must know.";
    ROOT_STRAY = "root.stray", Loss,
        "A `.git` that is not a repository hides the files above it from Gemini CLI and Codex.",
        "Remove the stray .git.";
    ROOT_IS_HOME = "root.is-home", Note,
        "The home directory is a repository, so its files are loaded in every directory below it that has no repository of its own.",
        "Run `git init` in the project, or move the instructions out of the home directory.";
    EXCLUDES_USER_FILE = "excludes.user-file", Loss,
        "The project's settings exclude the user's own instructions.",
        "Narrow the pattern in claudeMdExcludes to the project's files.";
    EXCLUDES_NOTHING = "excludes.nothing", Note,
        "A pattern of claudeMdExcludes matches nothing, because it is compared with absolute paths.",
        "Begin the pattern with / or **/.";
    VERSIONS_DIFFER = "versions.differ", Note,
        "Codex 0.98 and Codex 0.166 load different files here.",
        "Check the files that are listed before you upgrade, or agree on one version.";
    MEMORY_LOADED = "memory.loaded", Note,
        "Notes that the agent wrote for itself are loaded too.",
        "Review the file from time to time, and remove outdated parts.";
    MEMORY_TRUNCATED = "memory.truncated", Loss,
        "Only the beginning of the agent's notes is loaded.",
        "Keep MEMORY.md under 200 lines and 25,000 bytes.";
    SETTINGS_ELSEWHERE = "settings.elsewhere", Note,
        "Settings of a directory above this one are not read from here.",
        "Start the agent in that directory, or move the setting to the user's own settings.";
    SKILL_DESCRIPTION_CUT = "skill.description-cut", Loss,
        "A skill's description reaches the model only in part, or not at all, although its name is listed.",
        "Shorten the descriptions, or raise the limit: skills.max_context_tokens (at most 10000) for Codex; skillListingBudgetFraction, skillListingMaxDescChars or disableBundledSkills for Claude Code.";
    SKILL_DROPPED = "skill.dropped", Loss,
        "A skill is not listed at all, because not even the names fit into the budget of the list.",
        "Raise skills.max_context_tokens, or switch skills off with [[skills.config]].";
    SKILL_SHADOWED = "skill.shadowed", Loss,
        "A skill is not listed, because another one of the same name is.",
        "Rename one of the two: its directory for Claude Code, its `name` for Gemini CLI.";
    SKILL_UNDESCRIBED = "skill.undescribed", Note,
        "A skill has no description that Claude Code can read, so the first line of its text is used.",
        "Give it a `description` between --- lines.";
    SKILL_UNSEARCHED = "skill.unsearched", Note,
        "Skills lie in a directory that this agent does not search.",
        "Link the directory that the agent searches to it: .agents/skills for Codex and Gemini CLI, .claude/skills for Claude Code.";
    SKILLS_SWITCHED_OFF = "skills.switched-off", Note,
        "A setting or an argument switches the list of skills off.",
        "Remove the setting or the argument.";
}
