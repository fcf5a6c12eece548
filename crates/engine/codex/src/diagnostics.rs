//! Diagnostics of Codex's instruction files and skills.

convoke_core::diagnostic_codes! {
    AGENTS_MD_TRUNCATED = "agents-md.truncated", Loss,
        "An instruction file was cut or left out, because the budget of all instruction files was used up.",
        "Raise project_doc_max_bytes, or shorten the files nearer to the root.";
    AGENTS_MD_UNREADABLE = "agents-md.unreadable", Error,
        "An instruction file could not be read; Codex then loads none of the chain.",
        "Make the file readable, or remove it.";
    AGENTS_MD_NOT_UTF8 = "agents-md.not-utf8", Loss,
        "An instruction file is not valid UTF-8; the invalid bytes were replaced.",
        "Save the file as UTF-8.";
    AGENTS_MD_UNTRUSTED = "agents-md.untrusted", Loss,
        "The project is marked as untrusted, so its instruction files are not sent.",
        "Set trust_level = \"trusted\" for the project in config.toml.";
    SKILL_INVALID = "skill.invalid", Loss,
        "A skill's name or description is missing or too long, so the skill is not listed.",
        "Give it a name of at most 64 and a description of at most 1024 characters between --- lines.";
    SKILLS_LIMITED = "skills.limited", Loss,
        "A skills folder contains more folders than are searched.",
        "Keep skills in at most 2000 folders, six levels deep.";
}
