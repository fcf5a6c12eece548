//! Claude Code: every CLAUDE.md from the top of the file system down, rules and imports, and from 2.1.325 on
//! AGENTS.md.

mod agents_md;
mod imports;
mod loader;
mod markdown;
mod memory;
mod permissions;
mod rules;
mod scope;
mod settings;
mod skills;
mod validation;
mod variables;

use std::path::{Path, PathBuf};

use convoke_files::{Files, absolute};

use convoke_explain::Session;
use convoke_explain::place::{self, GitKind};
use convoke_explain::{AgentReport, Limit, LoadReason, Rule};
use convoke_explain::{Edition, EditionFacts, LoadingRules};

use agents_md::{Mode, Walk, WalkedDirectory};
use convoke_explain::diagnostics;
use loader::{Level, Loader, MAX_FILE_BYTES};
use settings::Settings;

/// The files of a directory that are checked in.
const SHARED_NAMES: [&str; 2] = ["CLAUDE.md", ".claude/CLAUDE.md"];

/// A person's own file of a directory.
const LOCAL_NAME: &str = "CLAUDE.local.md";

/// The loading rules of Claude Code.
pub static RULES: LoadingRules = LoadingRules {
    agent: "claude",
    title: "Claude Code",
    place: 0,
    is_optional: false,
    editions: &[
        EditionFacts { version: "2.1.197", since: [0, 0, 0] },
        EditionFacts { version: "2.1.325", since: [2, 1, 198] },
    ],
    main_file: "CLAUDE.md",
    skills_directory: ".claude/skills",
    wrapper_ends: &["</system-reminder>"],
    loads_above_root: true,
    variables: &[
        "ANTHROPIC_MODEL",
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD",
        "CLAUDE_CODE_DISABLE_CLAUDE_MDS",
        "CLAUDE_CODE_DISABLE_ATTACHMENTS",
        "CLAUDE_CODE_DISABLE_1M_CONTEXT",
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
        "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS",
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS",
        "CLAUDE_CODE_SIMPLE",
        "SLASH_COMMAND_TOOL_CHAR_BUDGET",
    ],
    explain: |files, session, edition| explain(files, session, Release::of(edition)),
    compare_editions: |_, _, _| None,
};

/// A version whose rules were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    V197,
    V325,
}

impl Release {
    fn of(edition: Edition) -> Self {
        if edition.index() == 0 { Self::V197 } else { Self::V325 }
    }

    fn edition(self) -> Edition {
        Edition::new(&RULES, self as usize)
    }
}

/// Finds what Claude Code loads; the session's directory must be free of links.
fn explain(files: &dyn Files, session: &Session, edition: Release) -> AgentReport {
    let mut report = AgentReport::new(edition.edition());
    report.limit = Some(Limit::EachFile(MAX_FILE_BYTES));
    report.search.names = ["CLAUDE.md", LOCAL_NAME].map(str::to_owned).to_vec();
    let repository = place::git_root(files, &session.cwd);
    let settings = Settings::read(files, session, edition, repository.as_deref(), &mut report);
    let mode = settings.agents_md;
    if mode.is_some_and(Mode::reads) {
        report.search.names.push("AGENTS.md".to_owned());
    }
    let off = settings.off;
    let mut loader = Loader::new(files, session, settings, report);

    managed(&mut loader);
    let managed_end = loader.report.loaded.len();
    user(&mut loader);
    let main = repository.as_deref().and_then(|root| match place::git_kind(files, root) {
        GitKind::Worktree(main) => Some(main),
        _ => None,
    });
    let nested_in = main.filter(|main| repository.as_ref().is_some_and(|it| it.starts_with(main)));
    let walk = project(&mut loader, repository.as_deref(), nested_in.as_deref());
    added_directories(&mut loader);
    agents_md::load(&mut loader, &walk);
    if mode == Some(Mode::ManagedOnly) {
        for file in loader.report.loaded.split_off(managed_end) {
            let rule = Rule::SwitchedOff("instructionFiles: managed-only");
            loader.report.ignore(&file.path, rule);
        }
    }
    memory::load(&mut loader, repository.as_deref());
    if !loader.settings.variables.is_on("CLAUDE_CODE_DISABLE_ATTACHMENTS") {
        for file in &session.reads {
            read(&mut loader, &walk, &absolute(&session.cwd, file));
        }
    }

    rules::report(&mut loader);
    let Loader { settings, mut report, .. } = loader;
    if let Some(switch) = off {
        report.clear_diagnostics();
        report.withhold(&Rule::SwitchedOff(switch));
    }
    skills::explain(files, session, edition, &settings, repository.as_deref(), &mut report);
    report
}

fn managed(loader: &mut Loader<'_>) {
    let directory = loader.session.etc.join("claude-code");
    loader.load(&directory.join("CLAUDE.md"), LoadReason::Managed, Level::Managed);
    if let Some((path, text)) = loader.settings.managed_text.clone() {
        loader.take_managed_text(&path, &text);
    }
    rules::load(loader, &directory.join(".claude/rules"), Level::Managed);
}

fn user(loader: &mut Loader<'_>) {
    let directory = loader.settings.config_dir.clone();
    if loader.settings.sources.user {
        loader.load(&directory.join("CLAUDE.md"), LoadReason::User, Level::User);
        rules::load(loader, &directory.join("rules"), Level::User);
    } else {
        let off = Rule::SwitchedOff("--setting-sources");
        loader.ignore_if_there(&directory.join("CLAUDE.md"), off);
    }
}

fn project(loader: &mut Loader<'_>, repository: Option<&Path>, nested_in: Option<&Path>) -> Walk {
    let mut skipped = false;
    let mut walk = Walk { start: loader.report.loaded.len(), ..Walk::default() };
    for directory in place::chain(&loader.session.cwd) {
        // The main checkout around a nested worktree holds the same files at another commit.
        let main = nested_in.filter(|main| {
            directory.starts_with(main)
                && !repository.is_some_and(|root| directory.starts_with(root))
        });
        let held = main.map(|main| Rule::MainCheckout(main.to_owned()));
        let mut claude_md = None;
        match &held {
            None => claude_md = shared_files(loader, &directory, &LoadReason::Project),
            Some(rule) => {
                for name in SHARED_NAMES {
                    skipped |= loader.ignore_if_there(&directory.join(name), rule.clone());
                }
            }
        }
        let local = local_file(loader, &directory, &LoadReason::Local);
        walk.claude_md = walk.claude_md.or(claude_md).or(local);
        let end = loader.report.loaded.len();
        walk.directories.push(WalkedDirectory { path: directory, held, end });
    }
    if let (true, Some(main)) = (skipped, nested_in) {
        let message = format!(
            "this worktree is inside its main checkout {}, whose CLAUDE.md is skipped",
            main.display()
        );
        loader.report.warn(diagnostics::WORKTREE_NESTED, main, message);
    }
    walk
}

/// Loads the files of a directory that are checked in; returns the first CLAUDE.md.
fn shared_files(loader: &mut Loader<'_>, directory: &Path, why: &LoadReason) -> Option<PathBuf> {
    let paths = SHARED_NAMES.map(|name| directory.join(name));
    if !loader.settings.sources.project {
        for path in paths {
            loader.ignore_if_there(&path, Rule::SwitchedOff("--setting-sources"));
        }
        return None;
    }
    let mut first = None;
    for path in paths {
        if loader.load(&path, why.clone(), Level::Project) {
            first.get_or_insert(path);
        }
    }
    rules::load(loader, &directory.join(".claude/rules"), Level::Project);
    first
}

/// Loads a person's own file of a directory; returns it if it counts, even where a switch keeps it out.
fn local_file(loader: &mut Loader<'_>, directory: &Path, why: &LoadReason) -> Option<PathBuf> {
    let path = directory.join(LOCAL_NAME);
    let counts = if loader.settings.sources.local {
        loader.load(&path, why.clone(), Level::Local)
    } else {
        let counts = loader.would_load(&path, Level::Local);
        loader.ignore_if_there(&path, Rule::SwitchedOff("--setting-sources"));
        counts
    };
    counts.then_some(path)
}

fn added_directories(loader: &mut Loader<'_>) {
    for directory in loader.session.directories("--add-dir") {
        if loader.settings.reads_added_directories {
            shared_files(loader, &directory, &LoadReason::ExtraDirectory);
            local_file(loader, &directory, &LoadReason::ExtraDirectory);
            continue;
        }
        let mut unread = false;
        for name in SHARED_NAMES.into_iter().chain([LOCAL_NAME]) {
            unread |= loader.ignore_if_there(&directory.join(name), Rule::AddedDirectory);
        }
        if unread {
            let message = format!("the instructions in {} are not read", directory.display());
            let report = &mut loader.report;
            report.warn(diagnostics::ADDED_DIRECTORY_UNREAD, &directory, message);
        }
    }
}

/// Adds the files loaded when the model reads a file: matching rules, and the files of the directories between the
/// working directory and it.
fn read(loader: &mut Loader<'_>, walk: &Walk, file: &Path) {
    let Ok(below) = file.strip_prefix(&loader.session.cwd) else {
        return;
    };
    loader.keeps_space = true;
    rules::load_matching(loader, file, Level::Managed);
    rules::load_matching(loader, file, Level::User);
    let why = LoadReason::Read(file.to_owned());
    let mut directory = loader.session.cwd.clone();
    let directories: Vec<PathBuf> = below
        .parent()
        .into_iter()
        .flat_map(Path::components)
        .map(|name| {
            directory.push(name);
            directory.clone()
        })
        .collect();
    for directory in &directories {
        if loader.settings.sources.project {
            for name in SHARED_NAMES {
                loader.load(&directory.join(name), why.clone(), Level::Project);
            }
        }
        local_file(loader, directory, &why);
        if loader.settings.sources.project {
            rules::load(loader, &directory.join(".claude/rules"), Level::Project);
            rules::load_matching_of(loader, file, directory);
        }
    }
    rules::load_matching(loader, file, Level::Project);
    agents_md::load_nested(loader, walk, &directories, &why);
    loader.keeps_space = false;
}

#[cfg(test)]
mod tests;
