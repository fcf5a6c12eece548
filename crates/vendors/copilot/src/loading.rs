//! GitHub Copilot CLI 1.0.102: the instructions of the user, of the repository's root and of the directories down to the
//! working directory, under the names of several agents.
//!
//! The order of directories between the root and the working directory was measured with one.

use std::path::{Path, PathBuf};

use convoke_explain::front_matter::{FrontMatter, Yaml, split};
use convoke_explain::skills::{BuiltinSkill, SkillSource};
use convoke_explain::text::line_at;
use convoke_explain::whole::{self, SkillList, Undescribed};
use convoke_explain::{AgentReport, EditionFacts, LoadReason, LoadingRules, Rule, Session, place};
use convoke_files::{EntryKind, Files};

/// The loading rules of GitHub Copilot CLI.
pub(super) static RULES: LoadingRules = LoadingRules {
    agent: "copilot",
    title: "GitHub Copilot CLI",
    place: 4,
    is_optional: true,
    editions: &[EditionFacts { version: "1.0.102", since: [0, 0, 0] }],
    main_file: "AGENTS.md",
    skills_directory: ".agents/skills",
    wrapper_ends: &["</custom_instruction>"],
    loads_above_root: false,
    variables: &[],
    explain: |files, session, _| explain(files, session),
    compare_editions: |_, _, _| None,
};

/// Its own file of a directory, and those of agents.
const OWN: &str = ".github/copilot-instructions.md";
const NAMES: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "GEMINI.md"];
/// The argument that switches all of them off.
const OFF: &str = "--no-custom-instructions";
/// The end of the names of files that count for some paths.
const SCOPED: &str = ".instructions.md";
/// The patterns of paths that are all paths.
const EVERYWHERE: [&str; 3] = ["*", "**", "**/*"];
const SKILLS: [&str; 3] = [".github/skills", ".agents/skills", ".claude/skills"];
const BUILTIN: [BuiltinSkill; 2] = [
    BuiltinSkill::ascii("customize-cloud-agent", 329),
    BuiltinSkill::ascii("github-pr-media", 216),
];
/// The maximum depth of imports and of directories.
const MAX_DEPTH: usize = 6;

fn explain(files: &dyn Files, session: &Session) -> AgentReport {
    let mut report = AgentReport::new(RULES.newest());
    report.search.names = NAMES.map(str::to_owned).to_vec();
    let root = place::git_root(files, &session.cwd);
    report.search.top.clone_from(&root);
    // Without a repository, only the working directory counts.
    let root = root.unwrap_or_else(|| session.cwd.clone());
    let chain = place::chain(&session.cwd).into_iter().filter(|it| it.starts_with(&root));
    let chain: Vec<PathBuf> = chain.collect();
    let (ends, between): (Vec<&PathBuf>, Vec<&PathBuf>) =
        chain.iter().partition(|it| **it == root || **it == session.cwd);
    let user = session.home.join(".copilot");

    let mut loader = Loader { files, report, texts: Vec::new() };
    loader.load(&user.join("copilot-instructions.md"), LoadReason::User);
    for directory in &ends {
        loader.load(&directory.join(OWN), LoadReason::Project);
    }
    for directory in &ends {
        loader.load_names(directory);
    }
    for directory in between {
        loader.load(&directory.join(OWN), LoadReason::Project);
        loader.load_names(directory);
    }
    let scoped = ends.iter().map(|it| it.join(".github/instructions"));
    for directory in std::iter::once(user.join("instructions")).chain(scoped) {
        loader.load_scoped(&directory, MAX_DEPTH);
    }
    let mut report = loader.report;
    if session.has_argument(OFF) {
        report.clear_diagnostics();
        report.withhold(&Rule::SwitchedOff(OFF));
    }
    let mut list = SkillList::default();
    for place in SKILLS {
        for directory in chain.iter().rev() {
            list.search(
                files,
                &directory.join(place),
                SkillSource::Project,
                Undescribed::FirstLine,
            );
        }
    }
    for place in [user.join("skills"), session.home.join(".agents/skills")] {
        list.search(files, &place, SkillSource::User, Undescribed::FirstLine);
    }
    for skill in &BUILTIN {
        list.add_builtin(skill);
    }
    list.finish(&mut report);
    report
}

struct Loader<'a> {
    files: &'a dyn Files,
    report: AgentReport,
    /// The texts of the loaded files, without their imports.
    texts: Vec<(String, PathBuf)>,
}

impl Loader<'_> {
    fn load_names(&mut self, directory: &Path) {
        for name in NAMES {
            self.load(&directory.join(name), LoadReason::Project);
        }
    }

    /// Loads a file, unless one with the same text is loaded, and pastes what it imports.
    fn load(&mut self, path: &Path, why: LoadReason) {
        let at = self.report.loaded.len();
        if !whole::load(self.files, path, why, &mut self.report) {
            return;
        }
        let text = &self.report.loaded[at].text;
        if let Some((_, first)) = self.texts.iter().find(|(it, _)| it == text) {
            let rule = Rule::Copy(first.clone());
            self.report.loaded.truncate(at);
            return self.report.ignore(path, rule);
        }
        self.texts.push((text.clone(), path.to_owned()));
        self.paste_imports(at, path, 1);
    }

    /// Loads the files that a loaded text names with `@`, relative to its own, and pastes them behind their names.
    fn paste_imports(&mut self, at: usize, by: &Path, depth: usize) {
        let text = std::mem::take(&mut self.report.loaded[at].text);
        let directory = by.parent().unwrap_or(by);
        let (mut pasted, mut rest) = (String::new(), 0);
        for (offset, _) in text.match_indices('@') {
            let is_start = text[..offset].chars().next_back().is_none_or(char::is_whitespace);
            let name = text[offset + 1..].split(char::is_whitespace).next().unwrap_or_default();
            let name = name.trim_end_matches(['.', ',', ';', ':', ')']);
            let path = normal(&directory.join(name));
            let is_file = matches!(self.files.kind(&path), Ok(EntryKind::File));
            if !is_start || name.is_empty() || depth > MAX_DEPTH || !is_file || path == by {
                continue;
            }
            let imported = self.report.loaded.len();
            let why = LoadReason::Import { by: by.to_owned(), line: line_at(&text, offset) };
            if !whole::load(self.files, &path, why, &mut self.report) {
                continue;
            }
            self.paste_imports(imported, &path, depth + 1);
            let file = &mut self.report.loaded[imported];
            (file.depth, file.is_pasted) = (depth, true);
            let end = offset + 1 + name.len();
            pasted.push_str(&text[rest..end]);
            let source = path.display();
            let open = format!("\n\n<imported_custom_instruction source=\"{source}\">\n");
            pasted.extend([&open, file.text.trim_end(), "\n</imported_custom_instruction>"]);
            rest = end;
        }
        pasted.push_str(&text[rest..]);
        let file = &mut self.report.loaded[at];
        file.bytes_loaded = pasted.len() as u64;
        file.text = pasted;
    }

    /// Loads the files below a directory that count for all paths.
    fn load_scoped(&mut self, directory: &Path, depth: usize) {
        for (name, kind) in self.files.entries(directory).unwrap_or_default() {
            let path = directory.join(&name);
            match kind {
                EntryKind::Directory if depth > 0 => self.load_scoped(&path, depth - 1),
                _ if !name.as_encoded_bytes().ends_with(SCOPED.as_bytes()) => {}
                _ => {
                    let head = self.files.read_head(&path, 1 << 16);
                    let text = head.map(|it| String::from_utf8_lossy(&it.bytes).into_owned());
                    match text.ok().as_deref().and_then(applies_to) {
                        Some(paths) if !EVERYWHERE.contains(&paths.as_str()) => {
                            self.report.ignore(&path, Rule::Conditional(paths));
                        }
                        _ => self.load(&path, LoadReason::Rule),
                    }
                }
            }
        }
    }
}

/// Returns the paths that a file counts for.
fn applies_to(text: &str) -> Option<String> {
    let front = FrontMatter::read(split(text).front?);
    match front.field("applyTo")? {
        Yaml::Text(paths) | Yaml::Scalar(paths) => Some(paths.trim().to_owned()),
        _ => None,
    }
}

/// Resolves `.` and `..` in a path without looking at files.
fn normal(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                resolved.pop();
            }
            std::path::Component::CurDir => {}
            part => resolved.push(part),
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use convoke_explain::explain;
    use convoke_files::MemoryTree;

    use super::*;

    fn report(cwd: &str, files: &[(&str, &str)]) -> AgentReport {
        let mut tree = MemoryTree::default();
        tree.create_directory("/w/repo/.git");
        tree.create_directory(cwd);
        tree.create_directory("/home");
        for (path, text) in files {
            tree.write(path, *text);
        }
        explain(&tree, &Session::new(cwd, "/home"), &[RULES.newest()]).agents.remove(0)
    }

    fn loaded(cwd: &str, files: &[(&str, &str)]) -> Vec<String> {
        report(cwd, files).loaded.iter().map(|it| it.path.display().to_string()).collect()
    }

    #[test]
    fn the_root_and_the_working_directory_come_before_those_between() {
        let files = [
            ("/home/.copilot/copilot-instructions.md", "1"),
            ("/w/AGENTS.md", "above"),
            ("/w/repo/.github/copilot-instructions.md", "2"),
            ("/w/repo/AGENTS.md", "3"),
            ("/w/repo/a/.github/copilot-instructions.md", "6"),
            ("/w/repo/a/CLAUDE.md", "7"),
            ("/w/repo/a/b/AGENTS.md", "4"),
            ("/w/repo/a/b/GEMINI.md", "5"),
        ];
        let expected = [
            "/home/.copilot/copilot-instructions.md",
            "/w/repo/.github/copilot-instructions.md",
            "/w/repo/AGENTS.md",
            "/w/repo/a/b/AGENTS.md",
            "/w/repo/a/b/GEMINI.md",
            "/w/repo/a/.github/copilot-instructions.md",
            "/w/repo/a/CLAUDE.md",
        ];
        assert_eq!(loaded("/w/repo/a/b", &files), expected);
        let alone = [("/x/AGENTS.md", "above"), ("/x/sub/AGENTS.md", "here")];
        assert_eq!(loaded("/x/sub", &alone), ["/x/sub/AGENTS.md"]);
    }

    #[test]
    fn a_copy_is_left_out_and_an_import_is_pasted() {
        let files = [
            ("/w/repo/AGENTS.md", "See @docs/a.md."),
            ("/w/repo/CLAUDE.md", "See @docs/a.md."),
            ("/w/repo/docs/a.md", "a @../b.md"),
            ("/w/repo/b.md", "b"),
        ];
        let report = report("/w/repo", &files);
        let pasted: Vec<_> = report.loaded.iter().map(|it| (it.depth, it.is_pasted)).collect();
        assert_eq!(pasted, [(0, false), (1, true), (2, true)]);
        let copy = report.ignored.iter().find(|it| it.path.ends_with("CLAUDE.md")).unwrap();
        assert_eq!(copy.rule, Rule::Copy("/w/repo/AGENTS.md".into()));
    }

    #[test]
    fn files_for_some_paths_are_not_loaded_at_first() {
        let scoped = |paths: &str| format!("---\napplyTo: \"{paths}\"\n---\nx{paths}");
        let (all, some) = (scoped("**"), scoped("src/**"));
        let files = [
            ("/w/repo/.github/instructions/a.instructions.md", some.as_str()),
            ("/w/repo/.github/instructions/d/b.instructions.md", &all),
            ("/w/repo/.github/instructions/c.md", "no"),
            ("/w/repo/.github/instructions/f.instructions.md", "always"),
        ];
        let expected = [
            "/w/repo/.github/instructions/d/b.instructions.md",
            "/w/repo/.github/instructions/f.instructions.md",
        ];
        assert_eq!(loaded("/w/repo", &files), expected);
    }
}
