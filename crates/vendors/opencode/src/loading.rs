//! opencode 1.18.33: the user's AGENTS.md, those of the project from the working directory up, and what settings name.
//!
//! A name that is found anywhere in the project keeps the next names out: AGENTS.md, CLAUDE.md, CONTEXT.md.

use std::path::{Path, PathBuf};

use convoke_explain::skills::{BuiltinSkill, SkillSource};
use convoke_explain::whole::{self, SkillList, Undescribed};
use convoke_explain::{
    AgentReport, EditionFacts, LoadReason, LoadingRules, Rule, Session, config, place,
};
use convoke_files::{EntryKind, Files, absolute};

/// The loading rules of opencode.
pub(super) static RULES: LoadingRules = LoadingRules {
    agent: "opencode",
    title: "opencode",
    place: 3,
    is_optional: true,
    editions: &[EditionFacts { version: "1.18.33", since: [0, 0, 0] }],
    main_file: "AGENTS.md",
    skills_directory: ".agents/skills",
    wrapper_ends: &[],
    loads_above_root: false,
    variables: &["OPENCODE_DISABLE_CLAUDE_CODE", "XDG_CONFIG_HOME"],
    explain: |files, session, _| explain(files, session),
    compare_editions: |_, _, _| None,
};

/// The names of project files; the first that is found keeps the others out.
const NAMES: [&str; 3] = ["AGENTS.md", CLAUDE, "CONTEXT.md"];
const CLAUDE: &str = "CLAUDE.md";
const WITHOUT_CLAUDE: &str = "OPENCODE_DISABLE_CLAUDE_CODE";
const BUILTIN: BuiltinSkill = BuiltinSkill::ascii("customize-opencode", 386);
/// The directories of skills in a directory of settings.
const SKILLS: [&str; 2] = ["skill", "skills"];
/// The maximum depth of `**`, and the maximum number of files that a pattern names.
const MAX_DEPTH: usize = 6;
const MAX_FILES: usize = 200;

fn explain(files: &dyn Files, session: &Session) -> AgentReport {
    let mut report = AgentReport::new(RULES.newest());
    let root = place::git_root(files, &session.cwd);
    // Without a repository, the search ends at the root of the file system.
    let is_inside = |it: &&Path| root.as_ref().is_none_or(|root| it.starts_with(root));
    let chain: Vec<PathBuf> =
        session.cwd.ancestors().take_while(is_inside).map(Path::to_owned).collect();
    let configuration = session.variable("XDG_CONFIG_HOME");
    let configuration = configuration.map_or_else(
        || session.home.join(".config"),
        |directory| absolute(&session.cwd, Path::new(directory)),
    );
    let configuration = configuration.join("opencode");
    let reads_claude = !session.is_on(WITHOUT_CLAUDE);
    report.search.names = NAMES.map(str::to_owned).to_vec();
    report.search.top.clone_from(&root);

    let users = [configuration.join("AGENTS.md"), session.home.join(".claude").join(CLAUDE)];
    let users = users.iter().take(if reads_claude { 2 } else { 1 });
    let mut users = users.filter(|path| files.kind(path).is_ok());
    if let Some(path) = users.next() {
        whole::load(files, path, LoadReason::User, &mut report);
    }
    load_project(files, &chain, reads_claude, &mut report);
    load_named(files, session, &configuration, &chain, &mut report);
    list_skills(files, session, &configuration, &chain, reads_claude, &mut report);
    report
}

fn load_project(
    files: &dyn Files,
    chain: &[PathBuf],
    reads_claude: bool,
    report: &mut AgentReport,
) {
    let mut chosen: Option<PathBuf> = None;
    for name in NAMES {
        let paths = chain.iter().map(|directory| directory.join(name));
        let paths: Vec<PathBuf> =
            paths.filter(|path| matches!(files.kind(path), Ok(EntryKind::File))).collect();
        let off = (name == CLAUDE && !reads_claude).then_some(Rule::SwitchedOff(WITHOUT_CLAUDE));
        if let Some(rule) = off.or_else(|| chosen.clone().map(Rule::Shadowed)) {
            for path in &paths {
                report.ignore(path, rule.clone());
            }
            continue;
        }
        for path in &paths {
            whole::load(files, path, LoadReason::Project, report);
        }
        chosen = paths.into_iter().next();
    }
}

/// Loads the files that `instructions` of settings name: from the working directory up, in the home, or by their path.
fn load_named(
    files: &dyn Files,
    session: &Session,
    configuration: &Path,
    chain: &[PathBuf],
    report: &mut AgentReport,
) {
    let directories = chain.iter().rev().map(PathBuf::as_path);
    let mut patterns: Vec<String> = Vec::new();
    for directory in std::iter::once(configuration).chain(directories) {
        for name in ["opencode.json", "opencode.jsonc"] {
            let path = directory.join(name);
            if files.entry_kind(&path).is_err() {
                continue;
            }
            let settings = config::commented_json(files, &path, report);
            let named = settings.map(|settings| config::strings(&settings["instructions"]));
            patterns.extend(named.unwrap_or_default());
        }
    }
    for pattern in patterns.iter().filter(|it| !it.contains("://")) {
        let starts: Vec<(PathBuf, &str)> =
            match (pattern.strip_prefix("~/"), pattern.strip_prefix('/')) {
                (Some(below), _) => vec![(session.home.clone(), below)],
                (_, Some(below)) => vec![(PathBuf::from("/"), below)],
                _ => chain.iter().map(|directory| (directory.clone(), pattern.as_str())).collect(),
            };
        for (directory, pattern) in starts {
            let parts: Vec<&str> = pattern.split('/').collect();
            let mut found = Vec::new();
            matching(files, &directory, &parts, MAX_DEPTH, &mut found);
            found.retain(|path| !report.loaded.iter().any(|it| it.path == *path));
            for path in &found {
                whole::load(files, path, LoadReason::Rule, report);
            }
        }
    }
}

/// Finds the files below a directory that the parts of a pattern name.
fn matching(
    files: &dyn Files,
    directory: &Path,
    parts: &[&str],
    depth: usize,
    found: &mut Vec<PathBuf>,
) {
    let Some((part, rest)) = parts.split_first() else { return };
    if !part.contains('*') {
        let path = match *part {
            ".." => directory.parent().map_or_else(|| directory.to_owned(), Path::to_owned),
            "." => directory.to_owned(),
            name => directory.join(name),
        };
        return reach(files, path, rest, depth, found);
    }
    if *part == "**" {
        matching(files, directory, rest, depth, found);
    }
    for (name, kind) in files.entries(directory).unwrap_or_default() {
        let Some(text) = name.to_str() else { continue };
        match (*part, kind) {
            ("**", EntryKind::Directory) if depth > 0 && !text.starts_with('.') => {
                matching(files, &directory.join(text), parts, depth - 1, found);
            }
            (part, _) if part != "**" && has_form(text, part) => {
                reach(files, directory.join(text), rest, depth, found);
            }
            _ => {}
        }
    }
}

fn reach(files: &dyn Files, path: PathBuf, rest: &[&str], depth: usize, found: &mut Vec<PathBuf>) {
    if !rest.is_empty() {
        matching(files, &path, rest, depth, found);
    } else if found.len() < MAX_FILES && matches!(files.kind(&path), Ok(EntryKind::File)) {
        found.push(path);
    }
}

/// Returns whether a name has the form of a pattern, in which `*` is any text.
fn has_form(name: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return name == pattern };
    let Some(name) = name.strip_prefix(start) else { return false };
    let places = (0..=name.len()).filter(|at| name.is_char_boundary(*at));
    places.into_iter().any(|at| has_form(&name[at..], rest))
}

/// Lists the skills by name. Of several with one name, which one is listed changes from start to start.
fn list_skills(
    files: &dyn Files,
    session: &Session,
    configuration: &Path,
    chain: &[PathBuf],
    reads_claude: bool,
    report: &mut AgentReport,
) {
    let mut list = SkillList::default();
    list.add_builtin(&BUILTIN);
    let places = [".agents/skills", ".claude/skills"];
    let places = &places[..if reads_claude { 2 } else { 1 }];
    let below = |directory: &Path| -> Vec<PathBuf> {
        let own = SKILLS.map(|name| directory.join(".opencode").join(name));
        places.iter().map(|it| directory.join(it)).chain(own).collect()
    };
    let users = SKILLS.map(|name| configuration.join(name));
    let users = below(&session.home).into_iter().chain(users);
    let users = users.map(|place| (place, SkillSource::User));
    let projects = chain.iter().rev().filter(|it| **it != session.home);
    let projects = projects.flat_map(|it| below(it)).map(|place| (place, SkillSource::Project));
    for (place, source) in users.chain(projects) {
        list.search(files, &place, source, Undescribed::Omitted);
    }
    list.skills.sort_by(|a, b| a.name.cmp(&b.name));
    list.finish(report);
}

#[cfg(test)]
mod tests {
    use convoke_explain::explain;
    use convoke_files::MemoryTree;

    use super::*;

    /// Returns what is loaded of these files from `/w/repo/sub`.
    fn loaded(files: &[(&str, &str)]) -> Vec<String> {
        report(files, &[]).loaded.iter().map(|it| it.path.display().to_string()).collect()
    }

    fn report(files: &[(&str, &str)], variables: &[(&str, &str)]) -> AgentReport {
        let mut tree = MemoryTree::default();
        tree.create_directory("/w/repo/.git");
        tree.create_directory("/w/repo/sub");
        tree.create_directory("/home");
        for (path, text) in files {
            tree.write(path, *text);
        }
        let mut session = Session::new("/w/repo/sub", "/home");
        let variables = variables.iter().map(|(name, it)| ((*name).to_owned(), (*it).to_owned()));
        session.variables = variables.collect();
        explain(&tree, &session, &[RULES.newest()]).agents.remove(0)
    }

    #[test]
    fn the_first_name_that_is_found_keeps_the_others_out() {
        let all = [
            ("/home/.config/opencode/AGENTS.md", "u"),
            ("/home/.claude/CLAUDE.md", "c"),
            ("/w/AGENTS.md", "above"),
            ("/w/repo/AGENTS.md", "r"),
            ("/w/repo/sub/AGENTS.md", "s"),
            ("/w/repo/sub/CLAUDE.md", "c"),
        ];
        let expected =
            ["/home/.config/opencode/AGENTS.md", "/w/repo/sub/AGENTS.md", "/w/repo/AGENTS.md"];
        assert_eq!(loaded(&all), expected);
        let claude = [
            ("/home/.claude/CLAUDE.md", "u"),
            ("/w/repo/CLAUDE.md", "r"),
            ("/w/repo/CONTEXT.md", "x"),
        ];
        assert_eq!(loaded(&claude), ["/home/.claude/CLAUDE.md", "/w/repo/CLAUDE.md"]);
        let off = report(&claude, &[(WITHOUT_CLAUDE, "1")]);
        assert_eq!(off.loaded.len(), 1, "{:?}", off.loaded);
        assert_eq!(loaded(&[("/w/repo/CONTEXT.md", "x")]), ["/w/repo/CONTEXT.md"]);
    }

    #[test]
    fn settings_name_further_files() {
        let settings =
            r#"{"instructions": ["docs/*.md", "../out.md", "~/mine.md", "https://x/y.md"]}"#;
        let files = [
            ("/w/repo/opencode.json", settings),
            ("/w/repo/docs/a.md", "a"),
            ("/w/repo/sub/docs/c.md", "c"),
            ("/w/out.md", "o"),
            ("/home/mine.md", "m"),
        ];
        let expected = ["/w/repo/sub/docs/c.md", "/w/repo/docs/a.md", "/w/out.md", "/home/mine.md"];
        assert_eq!(loaded(&files), expected);
    }

    #[test]
    fn skills_are_listed_by_name() {
        let skill = |name: &str| format!("---\nname: {name}\ndescription: d\n---\n");
        let (b, a) = (skill("b"), skill("a"));
        let files = [
            ("/w/repo/.opencode/skills/b/SKILL.md", b.as_str()),
            ("/w/repo/sub/.agents/skills/deep/a/SKILL.md", &a),
            ("/home/.claude/skills/none/SKILL.md", "no front matter"),
        ];
        let report = report(&files, &[]);
        let names: Vec<&str> = report.skills.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "customize-opencode"]);
        assert_eq!(report.skills_omitted.len(), 1);
    }
}
