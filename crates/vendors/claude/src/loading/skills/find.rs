//! Where Claude Code looks for skills, and which of the same name it lists.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use convoke_files::{EntryKind, FileKind, Files, absolute};
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::super::settings::Settings;
use super::text::{About, Form};
use crate::loading::Release;
use convoke_explain::Session;
use convoke_explain::place::{self, GitKind};
use convoke_explain::skills::{FILE_NAME, OmittedSkill, SkillRule, SkillSource, read};

/// The largest `SKILL.md` that is read.
const MAX_BYTES: u64 = 1_000_000;

/// The columns of the note on the scope of a skill, without the scope, which it has twice, and the skill's name.
const SCOPE_NOTE: u64 = 99;

/// The maximum number of directories of commands that are searched.
const MAX_FOLDERS: usize = 1_000;

/// A skill that may be listed.
pub(super) struct Candidate {
    pub name: String,
    pub path: PathBuf,
    pub real_path: PathBuf,
    pub source: SkillSource,
    pub about: About,
    /// The columns of the program's own note behind the description.
    pub note_columns: u64,
}

/// A command that was found: its name, its path, and its path without links.
struct Command {
    name: String,
    path: PathBuf,
    real: PathBuf,
}

/// Collects skills in the order of the list.
pub(super) struct Finder<'a> {
    files: &'a dyn Files,
    session: &'a Session,
    edition: Release,
    settings: &'a Settings,
    pub found: Vec<Candidate>,
    /// Skills of added directories whose name is taken: they are listed with the directory's name before their own.
    pub scoped: Vec<Candidate>,
    pub omitted: Vec<OmittedSkill>,
    /// What identifies the files that were found.
    seen: HashSet<OsString>,
    /// The files of the names that were found.
    names: HashMap<String, PathBuf>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(
        files: &'a dyn Files,
        session: &'a Session,
        edition: Release,
        settings: &'a Settings,
    ) -> Self {
        let (found, scoped, omitted) = (Vec::new(), Vec::new(), Vec::new());
        let (seen, names) = (HashSet::new(), HashMap::new());
        Self { files, session, edition, settings, found, scoped, omitted, seen, names }
    }

    /// Searches every place, in the order of the list.
    pub(super) fn search(&mut self, repository: Option<&Path>) {
        let added = self.session.directories("--add-dir");
        for (place, source) in self.places("skills", repository) {
            self.skills(&place, source, "", None);
        }
        for directory in &added {
            let scope = scope(directory, &added);
            let place = directory.join(".claude/skills");
            self.skills(&place, SkillSource::AddedDirectory, "", Some(&scope));
        }
        let places = self.places("commands", repository).into_iter().map(|(place, _)| place);
        let places = places.chain(added.iter().map(|it| it.join(".claude/commands")));
        let mut commands: Vec<Command> = places.flat_map(|place| self.commands(&place)).collect();
        commands.sort_by_cached_key(|it| locale_key(&it.name));
        for command in commands {
            self.take_command(command, SkillSource::Command, "");
        }
        for plugin in self.session.all_values("--plugin-dir") {
            let plugin = absolute(&self.session.cwd, Path::new(plugin));
            let prefix = format!("{}:", self.plugin_name(&plugin));
            let mut commands = self.commands(&plugin.join("commands"));
            commands.sort_by_cached_key(|it| locale_key(&it.name));
            for command in commands {
                self.take_command(command, SkillSource::Plugin, &prefix);
            }
            self.skills(&plugin.join("skills"), SkillSource::Plugin, &prefix, None);
        }
    }

    /// Returns the directories of a kind: the administrator's, the user's, and the project's, nearest first.
    fn places(&self, kind: &str, repository: Option<&Path>) -> Vec<(PathBuf, SkillSource)> {
        let managed = self.session.etc.join("claude-code/.claude").join(kind);
        let mut places = vec![(managed, SkillSource::Managed)];
        if self.settings.sources.user {
            places.push((self.settings.config_dir.join(kind), SkillSource::User));
        }
        if self.settings.sources.project {
            let directories = self.session.cwd.ancestors();
            let directories = directories.take_while(|it| *it != self.session.home);
            let inside =
                directories.filter(|it| repository.is_none_or(|root| it.starts_with(root)));
            let inside = inside.map(|it| it.join(".claude").join(kind));
            let main = self.of_main_checkout(kind, repository);
            places.extend(inside.chain(main).map(|it| (it, SkillSource::Project)));
        }
        places
    }

    /// Returns the main checkout's directory of a kind, which stands in for one that a linked worktree does not have.
    fn of_main_checkout(&self, kind: &str, repository: Option<&Path>) -> Option<PathBuf> {
        // The oldest edition does so for commands only.
        let root = repository.filter(|_| kind == "commands" || self.edition != Release::V197)?;
        let GitKind::Worktree(main) = place::git_kind(self.files, root) else { return None };
        let below = Path::new(".claude").join(kind);
        self.files.kind(&root.join(&below)).is_err().then(|| main.join(below))
    }

    fn plugin_name(&self, plugin: &Path) -> String {
        let manifest = plugin.join(".claude-plugin/plugin.json");
        let manifest = self.files.read(&manifest, FileKind::Configuration).ok();
        let manifest = manifest.and_then(|it| serde_json::from_slice::<Value>(&it).ok());
        let name = manifest.as_ref().and_then(|it| it.get("name")?.as_str());
        let directory = || plugin.file_name().map(|it| it.to_string_lossy().into_owned());
        name.map(str::to_owned).or_else(directory).unwrap_or_default()
    }

    /// Takes the skills in the directories of a place; `scope` is the name of an added directory.
    fn skills(&mut self, place: &Path, source: SkillSource, prefix: &str, scope: Option<&str>) {
        let Some(real) = self.directory(place) else { return };
        let mut entries = self.files.entries(&real).unwrap_or_default();
        entries.retain(|(_, kind)| matches!(kind, EntryKind::Directory | EntryKind::Symlink));
        let mut folders: Vec<String> =
            entries.into_iter().filter_map(|(name, _)| name.into_string().ok()).collect();
        folders.sort_by_cached_key(|it| locale_key(it));
        for folder in folders {
            let path = place.join(&folder).join(FILE_NAME);
            let real = real.join(&folder).join(FILE_NAME);
            if matches!(self.files.kind(&real), Ok(EntryKind::File)) {
                self.take(format!("{prefix}{folder}"), path, &real, source, Form::Skill, scope);
            }
        }
    }

    /// Finds the Markdown files in and below a place; a `SKILL.md` represents its directory.
    fn commands(&self, place: &Path) -> Vec<Command> {
        let Some(real) = self.directory(place) else { return Vec::new() };
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
        let command = |(name, below): (String, PathBuf)| Command {
            name,
            path: place.join(&below),
            real: real.join(&below),
        };
        found.into_iter().map(command).collect()
    }

    fn take_command(&mut self, command: Command, source: SkillSource, prefix: &str) {
        let Command { name, path, real } = command;
        self.take(format!("{prefix}{name}"), path, &real, source, Form::Command, None);
    }

    /// Returns a directory without links, if it is one.
    fn directory(&self, place: &Path) -> Option<PathBuf> {
        matches!(self.files.kind(place), Ok(EntryKind::Directory)).then_some(())?;
        self.files.canonicalize(place).ok()
    }

    fn take(
        &mut self,
        name: String,
        path: PathBuf,
        real: &Path,
        source: SkillSource,
        form: Form,
        scope: Option<&str>,
    ) {
        // Its directory is free of links, but the file and its folder need not be.
        let real_path = self.files.canonicalize(real).unwrap_or_else(|_| real.to_owned());
        // Of a command's hard links one is listed, of a skill's all.
        let identity = match form {
            Form::Command => self.files.identity(real).unwrap_or_else(|_| real_path.clone().into()),
            Form::Skill => real_path.clone().into(),
        };
        if !self.seen.insert(identity) {
            return;
        }
        let Ok(head) = read(self.files, &real_path) else { return };
        let about = About::read(&head.text, self.edition, form);
        let rule = match &about {
            _ if head.size > MAX_BYTES => Some(SkillRule::TooLarge(MAX_BYTES)),
            About { hidden_by: Some(key), .. } => Some(SkillRule::Hidden(key)),
            About { paths: Some(paths), .. } => Some(SkillRule::Conditional(paths.clone())),
            _ => None,
        };
        // The oldest edition lists all of the same name.
        let is_old = self.edition == Release::V197;
        let shadow = self.names.get(&name).filter(|_| !is_old);
        if let (Some(scope), Some(_), None) = (scope, shadow, &rule) {
            let note_columns = SCOPE_NOTE + 2 * scope.width() as u64 + name.width() as u64;
            let name = format!("{scope}:{name}");
            self.scoped.push(Candidate { name, path, real_path, source, about, note_columns });
            return;
        }
        let rule = rule.or_else(|| Some(SkillRule::Shadowed(Some(shadow?.clone()))));
        if let Some(rule) = rule {
            self.omitted.push(OmittedSkill { name: Some(name), path, rule });
            return;
        }
        self.names.insert(name.clone(), path.clone());
        self.found.push(Candidate { name, path, real_path, source, about, note_columns: 0 });
    }
}

/// The name of an added directory: its last part, and more of it where others end alike.
fn scope(directory: &Path, added: &[PathBuf]) -> String {
    let parts = |path: &Path| -> Vec<String> {
        let parts = path.components().filter(|it| matches!(it, std::path::Component::Normal(_)));
        parts.map(|it| it.as_os_str().to_string_lossy().into_owned()).collect()
    };
    let own = parts(directory);
    let others: Vec<_> = added.iter().filter(|it| *it != directory).map(|it| parts(it)).collect();
    let is_unique = |count: &usize| {
        let end = &own[own.len() - count..];
        !others.iter().any(|other| other.ends_with(end))
    };
    let count = (1..=own.len()).find(is_unique).unwrap_or(own.len());
    own[own.len() - count..].join("/")
}

/// Returns the key by which Claude Code sorts names: punctuation, digits, letters; case and accents only where all
/// else is equal.
fn locale_key(text: &str) -> (Vec<(u8, u32)>, Vec<bool>, String) {
    let folded = text.chars().map(weight).collect();
    let small_first = text.chars().map(char::is_uppercase).collect();
    (folded, small_first, text.to_owned())
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
    use super::locale_key;

    #[test]
    fn names_are_sorted_as_people_sort_them() {
        let sorted = [
            "_under", "-dash", ".hid", "a b", "a.b", "A1", "a10", "a2", "ab", "AB2", "dup", "é",
            "z", "Z",
        ];
        let mut names = sorted;
        names.reverse();
        names.sort_by_cached_key(|it| locale_key(it));
        assert_eq!(names, sorted);
    }
}
