//! The metadata of a skill.

use std::borrow::Cow;

use convoke_files::yaml;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::project_doc::Rules;

const MAX_NAME: usize = 64;

/// The maximum number of characters of a description. Codex 0.98 rejects a longer one, 0.166 cuts it in the
/// list.
pub const MAX_DESCRIPTION: usize = 1024;

/// The name and description of a skill, with white space collapsed.
#[derive(Debug, PartialEq, Eq)]
pub struct SkillHeader {
    /// The name; `None` lets Codex 0.166 use the directory's name.
    pub name: Option<String>,
    pub description: String,
    /// The description as written in the file.
    pub stated: String,
}

#[derive(Deserialize)]
struct RawHeader {
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Metadata {
    short_description: Option<String>,
}

/// Reads the part between the first two `---` lines.
///
/// # Errors
///
/// Returns the reason why Codex does not list the skill.
pub fn read(text: &str, rules: Rules) -> Result<SkillHeader, String> {
    let front = between_rules(text).ok_or("it has no part between --- lines")?;
    yaml::check(&front).map_err(|why| format!("the part between --- lines is not read: {why}"))?;
    let parsed = match plain(&front) {
        Some(written) => Ok(written),
        None => yaml_serde::from_str::<RawHeader>(&front),
    };
    let parsed = match (parsed, rules) {
        (Err(wrong), Rules::V0_166) => {
            yaml_serde::from_str(&repaired(&front)).map_err(|_| wrong.to_string())
        }
        (parsed, _) => parsed.map_err(|wrong| wrong.to_string()),
    };
    let written: RawHeader =
        parsed.map_err(|wrong| format!("the part between --- lines is not valid YAML: {wrong}"))?;
    let short = written.metadata.and_then(|it| it.short_description);
    let short = collapsed(&short.unwrap_or_default());
    within("metadata.short-description", &short, MAX_DESCRIPTION)?;
    let name = collapsed(&written.name);
    check_name(&name)?;
    let description = collapsed(&written.description);
    if rules == Rules::V0_98 {
        within("description", &description, MAX_DESCRIPTION)?;
    }
    // Codex 0.98 reads an unset value as its literal text.
    let is_unset = matches!(&*description, "~" | "null") && rules == Rules::V0_166;
    if description.is_empty() || is_unset {
        return Err("it has no `description`".to_owned());
    }
    if name.is_empty() && rules == Rules::V0_98 {
        return Err("it has no `name`".to_owned());
    }
    let is_unnamed = name.is_empty() || matches!(&*name, "~" | "null") && rules == Rules::V0_166;
    let name = (!is_unnamed).then_some(name);
    Ok(SkillHeader { name, description, stated: written.description })
}

/// Parses front matter that needs no YAML parser.
fn plain(front: &str) -> Option<RawHeader> {
    let fields = yaml::plain_fields(front)?;
    let value = |key: &str| fields.iter().find(|(it, _)| *it == key).map(|(_, value)| *value);
    let text = |key: &str| value(key).unwrap_or_default().to_owned();
    // A string is not metadata.
    let is_valid = value("metadata").is_none();
    is_valid.then(|| RawHeader {
        name: text("name"),
        description: text("description"),
        metadata: None,
    })
}

fn between_rules(text: &str) -> Option<String> {
    let mut lines = text.lines();
    lines.next().filter(|line| line.trim() == "---")?;
    let mut yaml = Vec::new();
    for line in lines {
        if line.trim() == "---" {
            return (!yaml.is_empty()).then(|| yaml.join("\n"));
        }
        yaml.push(line);
    }
    None
}

/// Quotes plain values that YAML would parse differently: those with a colon inside, and those that begin like
/// a collection or a reserved character but are not YAML.
fn repaired(front: &str) -> String {
    let lines: Vec<_> = front.lines().map(repaired_line).collect();
    lines.join("\n")
}

fn repaired_line(line: &str) -> Cow<'_, str> {
    let Some((key, value)) = line.split_once(": ") else {
        return Cow::Borrowed(line);
    };
    let is_key = |it: char| it.is_alphanumeric() || matches!(it, '_' | '-');
    let value = value.split(" #").next().unwrap_or_default().trim();
    let is_broken = || yaml_serde::from_str::<IgnoredAny>(value).is_err();
    let needs_quotes = value.starts_with(['[', '{', '@', '`']) && is_broken()
        || value.contains(": ") && !value.starts_with(['"', '\'', '|', '>']);
    if key.trim().is_empty() || !key.trim().chars().all(is_key) || !needs_quotes {
        return Cow::Borrowed(line);
    }
    Cow::Owned(format!("{key}: '{}'", value.replace('\'', "''")))
}

fn collapsed(text: &str) -> String {
    // Without an early exit, sixteen or more bytes are compared at once.
    let is_ascii = text.bytes().fold(true, |so_far, byte| so_far & matches!(byte, b' '..=b'~'));
    let is_collapsed =
        is_ascii && !text.contains("  ") && !text.starts_with(' ') && !text.ends_with(' ');
    if is_collapsed {
        return text.to_owned();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Checks the name of a skill.
///
/// # Errors
///
/// Returns the reason why Codex does not list the skill.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    within("name", name, MAX_NAME)
}

fn within(name: &str, text: &str, max: usize) -> Result<(), String> {
    match text.chars().count() {
        length if length > max => {
            Err(format!("its `{name}` has {length} characters and may have {max}"))
        }
        _ => Ok(()),
    }
}
