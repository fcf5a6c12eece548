//! The list of skills that Gemini CLI sends: every description whole.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use convoke_files::{EntryKind, Files, yaml};
use yaml_serde::Value;

use super::settings::Settings;
use convoke_explain::AgentReport;
use convoke_explain::Session;
use convoke_explain::diagnostics;
use convoke_explain::skills::{
    BudgetUnit, BuiltinSkill, FILE_NAME, OmittedSkill, Skill, SkillRule, SkillSource, SkillsBudget,
    Stated, loaded_bytes, read,
};

const BUILTIN: [BuiltinSkill; 2] =
    [BuiltinSkill::ascii("skill-creator", 230), BuiltinSkill::ascii("antigravity-support", 273)];

/// The settings for skills.
#[derive(Debug)]
pub(super) struct SkillSettings {
    /// What keeps the list out of the request.
    pub without: Option<&'static str>,
    /// `skills.disabled`, in lower case.
    pub disabled: BTreeSet<String>,
}

/// Finds the skills that Gemini CLI lists.
pub(super) fn explain(
    files: &dyn Files,
    session: &Session,
    settings: &Settings,
    extensions: &[PathBuf],
    report: &mut AgentReport,
) {
    let mut list = List::default();
    for skill in &BUILTIN {
        list.at.insert(skill.name.to_owned(), list.skills.len());
        list.skills.push(Skill::builtin(skill, skill.bytes));
    }
    let home = settings.directory.parent().unwrap_or(&settings.directory);
    let extensions = extensions.iter().map(|it| (it.join("skills"), SkillSource::Plugin));
    let user = [home.join(".gemini/skills"), home.join(".agents/skills")];
    let user = user.map(|it| (it, SkillSource::User));
    let own = [".gemini/skills", ".agents/skills"];
    let own = own.map(|it| (session.cwd.join(it), SkillSource::Project));
    let places: Vec<_> = extensions.chain(user).chain(own).collect();
    for (place, source) in &places {
        list.search(files, place, *source);
    }
    let rule = |name: &str| match &settings.skills {
        skills if skills.without.is_some() => skills.without,
        skills if skills.disabled.contains(&name.to_lowercase()) => Some("skills.disabled"),
        _ => None,
    };
    for skill in std::mem::take(&mut list.skills) {
        match (rule(&skill.name), skill.path.clone()) {
            (None, _) => report.skills.push(skill),
            (Some(_), None) => {}
            (Some(by), Some(path)) => {
                let rule = SkillRule::SwitchedOff(by.to_owned());
                list.omitted.push(OmittedSkill { name: Some(skill.name), path, rule });
            }
        }
    }
    report.skills_omitted = list.omitted;
    let bytes = report.skills.iter().map(|it| it.name.len() as u64 + it.description_bytes_loaded);
    let used = bytes.sum();
    report.skills_budget = Some(SkillsBudget { limit: None, unit: BudgetUnit::Bytes, used });
    if let Some(without) = settings.skills.without {
        let message = format!("no skill is listed: {without}");
        let path = settings.directory.join("settings.json");
        report.warn(diagnostics::SKILLS_SWITCHED_OFF, &path, message);
    }
}

#[derive(Default)]
struct List {
    skills: Vec<Skill>,
    /// The index in `skills` by name.
    at: HashMap<String, usize>,
    omitted: Vec<OmittedSkill>,
}

impl List {
    /// Takes the skill in a place itself, then those in its directories, the last name first.
    fn search(&mut self, files: &dyn Files, place: &Path, source: SkillSource) {
        if !matches!(files.kind(place), Ok(EntryKind::Directory)) {
            return;
        }
        let real = files.canonicalize(place).unwrap_or_else(|_| place.to_owned());
        let entries = files.entries(&real).unwrap_or_default();
        let directories = entries.iter().rev().filter(|(name, kind)| {
            matches!(kind, EntryKind::Directory | EntryKind::Symlink)
                && !name.as_encoded_bytes().starts_with(b".")
                && name != "node_modules"
        });
        let own = entries.iter().any(|(name, _)| name == FILE_NAME).then(PathBuf::new);
        let below = directories.map(|(name, _)| PathBuf::from(name));
        for folder in own.into_iter().chain(below) {
            let path = place.join(&folder).join(FILE_NAME);
            let real = real.join(&folder).join(FILE_NAME);
            if matches!(files.kind(&real), Ok(EntryKind::File)) {
                self.take(files, path, &real, source);
            }
        }
    }

    fn take(&mut self, files: &dyn Files, path: PathBuf, real: &Path, source: SkillSource) {
        let about = read(files, real).map_err(|error| error.to_string());
        let about = about.and_then(|head| About::read(&head.text).map(|about| (about, head.text)));
        let (about, text) = match about {
            Ok(found) => found,
            Err(reason) => {
                let name = path.parent().and_then(Path::file_name);
                let name = name.map(|it| it.to_string_lossy().into_owned());
                self.omitted.push(OmittedSkill { name, path, rule: SkillRule::Invalid(reason) });
                return;
            }
        };
        let stated = if about.is_yaml {
            Stated(about.description.trim().to_owned())
        } else {
            Stated::leniently(&text)
        };
        let description_bytes = stated.0.len() as u64;
        let description_bytes_loaded = loaded_bytes(&stated.0, about.description.trim());
        let real_path = files.canonicalize(real).unwrap_or_else(|_| real.to_owned());
        let skill = Skill {
            name: about.name,
            description_bytes,
            description_bytes_loaded,
            whole: description_bytes == description_bytes_loaded,
            source,
            real_path: Some(real_path),
            path: Some(path),
            is_name_only: false,
            text: Some(about.description),
        };
        let next = self.skills.len();
        let index = *self.at.entry(skill.name.clone()).or_insert(next);
        let Some(same) = self.skills.get_mut(index) else {
            self.skills.push(skill);
            return;
        };
        // The later one takes the place of the earlier one.
        let by = skill.path.clone();
        let earlier = std::mem::replace(same, skill);
        let is_other = earlier.real_path != same.real_path;
        if let (Some(path), true) = (earlier.path, is_other) {
            let rule = SkillRule::Shadowed(by);
            self.omitted.push(OmittedSkill { name: Some(earlier.name), path, rule });
        }
    }
}

/// The metadata of a skill.
#[derive(Debug, PartialEq, Eq)]
struct About {
    name: String,
    description: String,
    is_yaml: bool,
}

impl About {
    fn read(text: &str) -> Result<Self, String> {
        let front = between_rules(text).ok_or("it has no part between --- lines")?;
        let about = Self::of_yaml(front).or_else(|| Self::of_lines(front));
        let mut about = about.ok_or("it has no `name` or no `description`")?;
        about.name = about.name.chars().map(usable).collect();
        Ok(about)
    }

    fn of_yaml(front: &str) -> Option<Self> {
        yaml::check(front).ok()?;
        if let Some(fields) = yaml::plain_fields(front) {
            let text = |key: &str| {
                let field = fields.iter().find(|(it, _)| *it == key)?;
                Some(field.1.to_owned())
            };
            return Some(Self {
                name: text("name")?,
                description: text("description")?,
                is_yaml: true,
            });
        }
        // The last line has its line break, which the text of a block may end with.
        let value = yaml_serde::from_str::<Value>(&format!("{front}\n")).ok()?;
        let text = |key: &str| match value.get(key)? {
            Value::String(text) => Some(text.clone()),
            _ => None,
        };
        Some(Self { name: text("name")?, description: text("description")?, is_yaml: true })
    }

    /// Takes the lines of the two keys as they are, each with the indented lines below it.
    fn of_lines(front: &str) -> Option<Self> {
        let (mut name, mut description) = (None, None);
        let mut lines = front.lines().peekable();
        while let Some(line) = lines.next() {
            let key = |key: &str| line.trim_start().strip_prefix(key)?.strip_prefix(':');
            if let Some(value) = key("name") {
                name = Some(value.trim().to_owned());
            } else if let Some(value) = key("description") {
                let mut words = vec![value.trim()];
                while let Some(more) = lines.next_if(|it| it.starts_with([' ', '\t'])) {
                    words.push(more.trim());
                }
                words.retain(|it| !it.is_empty());
                description = Some(words.join(" "));
            }
        }
        Some(Self { name: name?, description: description?, is_yaml: false })
    }
}

fn between_rules(text: &str) -> Option<&str> {
    let front = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"))?;
    // The rest of the line after the closing mark is ignored.
    let end = front.find("\n---")?;
    Some(front[..end].trim_end_matches('\r'))
}

/// Replaces characters that are invalid in a name.
fn usable(character: char) -> char {
    let is_special = matches!(character, ':' | '\\' | '/' | '<' | '>' | '*' | '?' | '"' | '|');
    if is_special { '-' } else { character }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_or_else_the_lines_are_read() {
        let cases = [
            ("name: a\ndescription: b", "a", "b"),
            ("name: a/b:c\ndescription: \"  \"", "a-b-c", "  "),
            ("name: a\ndescription: |\n  b\n    c\n  d", "a", "b\n  c\nd\n"),
            ("name: a\ndescription: >\n  b\n  c", "a", "b c\n"),
            ("name: a\ndescription: |-\n  b", "a", "b"),
            ("description: |+\n  b\n\nname: a", "a", "b\n\n"),
            ("name: a\ndescription: {b: c}", "a", "{b: c}"),
            ("name: a\ndescription:\n  b: c\n  d: e", "a", "b: c d: e"),
            ("name: a\ndescription:", "a", ""),
            ("name: 42\ndescription: ~", "42", "~"),
            ("name: a\ndescription: b: c #d", "a", "b: c #d"),
            ("name: a\ndescription: \"b\" c", "a", "\"b\" c"),
            ("name: a\ndescription: !b c", "a", "!b c"),
            ("name: a\ndescription: [b, c]", "a", "[b, c]"),
            ("name: a\ndescription:\n  - b\n  - c", "a", "- b - c"),
            ("name: a\ndescription: b\n\tc: d", "a", "b c: d"),
            ("name: a\ndescription: b\ndescription: c", "a", "c"),
        ];
        for (front, name, description) in cases {
            let about = About::read(&format!("---\n{front}\n---\nbody")).unwrap();
            assert_eq!((&*about.name, &*about.description), (name, description), "{front}");
        }
    }

    #[test]
    fn a_skill_needs_front_matter_with_both_keys() {
        let texts = [
            "",
            "# text",
            "---\nname: a\n---\n",
            "---\ndescription: a\n---\n",
            "---\nname: a\ndescription: b\n",
            "--- \nname: a\ndescription: b\n---\n",
            "\u{feff}---\nname: a\ndescription: b\n---\n",
            "\n---\nname: a\ndescription: b\n---\n",
            "---\n---\n",
        ];
        for text in texts {
            assert!(About::read(text).is_err(), "{text:?}");
        }
        let endings = ["\n---", "\r\n---\r\n", "\n----\nx", "\n---x\n", "\n---\t\n"];
        for ending in endings {
            let text = format!("---\r\nname: a\r\ndescription: b{ending}");
            assert!(About::read(&text).is_ok(), "{text:?}");
        }
    }
}
