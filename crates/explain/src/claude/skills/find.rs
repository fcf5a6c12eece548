//! Where Claude Code looks for skills, and which of the same name it lists.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use convoke_files::{EntryKind, FileKind, Files, absolute};
use serde_json::Value;

use super::text::About;
use crate::claude::settings::Settings;
use crate::edition::Edition;
use crate::place;
use crate::session::Session;
use crate::skills::{FILE_NAME, OmittedSkill, SkillRule, SkillSource, read};

/// The largest `SKILL.md` that is read.
const MAX_BYTES: u64 = 1_000_000;

/// The most directories of commands that are searched.
const MAX_FOLDERS: usize = 1_000;

/// A skill that may be listed.
pub(super) struct Candidate {
    pub name: String,
    pub path: PathBuf,
    pub real_path: PathBuf,
    pub source: SkillSource,
    pub about: About,
}

/// Collects skills in the order of the list.
pub(super) struct Finder<'a> {
    files: &'a dyn Files,
    session: &'a Session,
    edition: Edition,
    settings: &'a Settings,
    pub found: Vec<Candidate>,
    pub omitted: Vec<OmittedSkill>,
    /// The files that were found, without links.
    seen: HashSet<OsString>,
    /// The files of the names that were found.
    names: HashMap<String, PathBuf>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(
        files: &'a dyn Files,
        session: &'a Session,
        edition: Edition,
        settings: &'a Settings,
    ) -> Self {
        let (found, omitted) = (Vec::new(), Vec::new());
        let (seen, names) = (HashSet::new(), HashMap::new());
        Self { files, session, edition, settings, found, omitted, seen, names }
    }

    /// Searches every place, in the order of the list.
    pub(super) fn search(&mut self, repository: Option<&Path>) {
        let managed = self.session.etc.join("claude-code/.claude");
        let own = self.settings.config_dir.clone();
        let mut project: Vec<PathBuf> = place::chain(&self.session.cwd);
        project.retain(|it| repository.is_none_or(|root| it.starts_with(root)));
        project.reverse();
        let project = project.into_iter().map(|it| it.join(".claude"));
        let project: Vec<_> = project.filter(|_| self.settings.sources.project).collect();
        let added = self.session.directories("--add-dir");
        let added = added.into_iter().map(|it| it.join(".claude"));
        let user = self.settings.sources.user.then_some(own);

        let mut places = vec![(managed, SkillSource::Managed)];
        places.extend(user.map(|it| (it, SkillSource::User)));
        places.extend(project.into_iter().map(|it| (it, SkillSource::Project)));
        let added = added.map(|it| (it, SkillSource::AddedDirectory));
        for (place, source) in places.iter().cloned().chain(added) {
            self.skills(&place.join("skills"), source, "");
        }
        for (place, _) in &places {
            self.commands(&place.join("commands"), SkillSource::Command, "");
        }
        for plugin in self.session.all_values("--plugin-dir") {
            let plugin = absolute(&self.session.cwd, Path::new(plugin));
            let prefix = format!("{}:", self.plugin_name(&plugin));
            self.commands(&plugin.join("commands"), SkillSource::Plugin, &prefix);
            self.skills(&plugin.join("skills"), SkillSource::Plugin, &prefix);
        }
    }

    fn plugin_name(&self, plugin: &Path) -> String {
        let manifest = plugin.join(".claude-plugin/plugin.json");
        let manifest = self.files.read(&manifest, FileKind::Configuration).ok();
        let manifest = manifest.and_then(|it| serde_json::from_slice::<Value>(&it).ok());
        let name = manifest.as_ref().and_then(|it| it.get("name")?.as_str());
        let directory = || plugin.file_name().map(|it| it.to_string_lossy().into_owned());
        name.map(str::to_owned).or_else(directory).unwrap_or_default()
    }

    /// Takes the skills in the directories of a place.
    fn skills(&mut self, place: &Path, source: SkillSource, prefix: &str) {
        let Some(real) = self.directory(place) else { return };
        let mut entries = self.files.entries(&real).unwrap_or_default();
        entries.retain(|(_, kind)| matches!(kind, EntryKind::Directory | EntryKind::Symlink));
        let mut folders: Vec<String> =
            entries.into_iter().filter_map(|(name, _)| name.into_string().ok()).collect();
        folders.sort_by(|a, b| by_locale(a, b));
        for folder in folders {
            let path = place.join(&folder).join(FILE_NAME);
            let real = real.join(&folder).join(FILE_NAME);
            if matches!(self.files.kind(&real), Ok(EntryKind::File)) {
                self.take(format!("{prefix}{folder}"), path, &real, source, "Skill");
            }
        }
    }

    /// Takes the Markdown files in and below a place; a `SKILL.md` stands for its directory.
    fn commands(&mut self, place: &Path, source: SkillSource, prefix: &str) {
        let Some(real) = self.directory(place) else { return };
        let mut open = vec![(PathBuf::new(), String::new())];
        let mut found: Vec<(String, PathBuf)> = Vec::new();
        let mut searched = 0;
        while let Some((below, names)) = open.pop() {
            searched += 1;
            for (name, kind) in self.files.entries(&real.join(&below)).unwrap_or_default() {
                let Some(text) = name.to_str() else { continue };
                let path = below.join(&name);
                let kind = match kind {
                    EntryKind::Symlink => self.files.kind(&real.join(&path)).unwrap_or(kind),
                    kind => kind,
                };
                match kind {
                    EntryKind::Directory if searched + open.len() < MAX_FOLDERS => {
                        open.push((path, format!("{names}{text}:")));
                    }
                    EntryKind::File if text == FILE_NAME => {
                        found.push((names.trim_end_matches(':').to_owned(), path));
                    }
                    EntryKind::File => {
                        if let Some(stem) = text.strip_suffix(".md") {
                            found.push((format!("{names}{stem}"), path));
                        }
                    }
                    _ => {}
                }
            }
        }
        found.sort_by(|(a, _), (b, _)| by_locale(a, b));
        for (name, below) in found {
            let (path, real) = (place.join(&below), real.join(&below));
            self.take(format!("{prefix}{name}"), path, &real, source, "Custom command");
        }
    }

    /// Returns a directory without links, if it is one.
    fn directory(&self, place: &Path) -> Option<PathBuf> {
        matches!(self.files.kind(place), Ok(EntryKind::Directory)).then_some(())?;
        self.files.canonicalize(place).ok()
    }

    fn take(&mut self, name: String, path: PathBuf, real: &Path, source: SkillSource, empty: &str) {
        // Its directory is free of links, but the file and its folder need not be.
        let real_path = self.files.canonicalize(real).unwrap_or_else(|_| real.to_owned());
        if !self.seen.insert(real_path.clone().into()) {
            return;
        }
        let Ok(head) = read(self.files, &real_path) else { return };
        let about = About::read(&head.text, self.edition, empty);
        let rule = match &about {
            _ if head.size > MAX_BYTES => Some(SkillRule::TooLarge(MAX_BYTES)),
            About { hidden_by: Some(key), .. } => Some(SkillRule::Hidden(key)),
            About { paths: Some(paths), .. } => Some(SkillRule::Conditional(paths.clone())),
            _ => None,
        };
        // A command and a skill of the same name are both listed by the oldest edition.
        let is_old = self.edition == Edition::Claude197;
        let shadow = self.names.get(&name).filter(|_| !is_old || source != SkillSource::Command);
        let rule = rule.or_else(|| Some(SkillRule::Shadowed(Some(shadow?.clone()))));
        if let Some(rule) = rule {
            self.omitted.push(OmittedSkill { name: Some(name), path, rule });
            return;
        }
        self.names.insert(name.clone(), path.clone());
        self.found.push(Candidate { name, path, real_path, source, about });
    }
}

/// Compares names as Claude Code sorts them: punctuation, digits, letters; case and accents only where all
/// else is equal.
fn by_locale(a: &str, b: &str) -> Ordering {
    let folded = |text: &str| text.chars().map(weight).collect::<Vec<_>>();
    let small_first = |text: &str| text.chars().map(char::is_uppercase).collect::<Vec<_>>();
    folded(a)
        .cmp(&folded(b))
        .then_with(|| small_first(a).cmp(&small_first(b)))
        .then_with(|| a.cmp(b))
}

fn weight(character: char) -> (u8, u32) {
    const PUNCTUATION: &str = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";
    let lower = character.to_lowercase().next().unwrap_or(character);
    match lower {
        it if it.is_whitespace() => (0, 0),
        it if it.is_ascii_punctuation() => {
            let place = PUNCTUATION.chars().position(|other| other == it);
            (1, u32::try_from(place.unwrap_or_default()).unwrap_or_default())
        }
        it if it.is_ascii_digit() => (2, u32::from(it)),
        it => (3, u32::from(without_accent(it))),
    }
}

/// The letter below an accent, for the letters of Western Europe.
fn without_accent(letter: char) -> char {
    match letter {
        'à'..='å' => 'a',
        'ç' => 'c',
        'è'..='ë' => 'e',
        'ì'..='ï' => 'i',
        'ñ' => 'n',
        'ò'..='ö' => 'o',
        'ù'..='ü' => 'u',
        'ý' | 'ÿ' => 'y',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::by_locale;

    #[test]
    fn names_are_sorted_as_people_sort_them() {
        let sorted = [
            "_under", "-dash", ".hid", "a b", "a.b", "A1", "a10", "a2", "ab", "AB2", "dup", "é",
            "z", "Z",
        ];
        let mut names = sorted;
        names.reverse();
        names.sort_by(|a, b| by_locale(a, b));
        assert_eq!(names, sorted);
    }
}
