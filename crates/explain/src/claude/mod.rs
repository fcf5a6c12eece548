//! Claude Code 2.1.197: every CLAUDE.md from the top of the file system down, rules and imports.

mod front_matter;
mod imports;
mod loader;
mod markdown;
mod memory;
mod rules;
mod scope;
mod settings;

use std::path::{Path, PathBuf};

use convoke_files::{Files, absolute};

use crate::edition::Edition;
use crate::place::{self, GitKind};
use crate::report::{AgentReport, Limit, LoadReason, Rule};
use crate::session::Session;

use crate::diagnostics;
use loader::{Level, Loader, MAX_FILE_BYTES};
use settings::Settings;

/// Finds what Claude Code loads; the session's directory must be free of links.
pub(crate) fn explain(files: &dyn Files, session: &Session) -> AgentReport {
    let mut report = AgentReport::new(Edition::Claude);
    report.limit = Some(Limit::EachFile(MAX_FILE_BYTES));
    report.search.names = ["CLAUDE.md", "CLAUDE.local.md"].map(str::to_owned).to_vec();
    let repository = place::git_root(files, &session.cwd);
    let settings = Settings::read(files, session, repository.as_deref(), &mut report);
    let off = settings.off;
    let mut loader = Loader::new(files, session, settings, report);

    managed(&mut loader);
    user(&mut loader);
    let main = repository.as_deref().and_then(|root| match place::git_kind(files, root) {
        GitKind::Worktree(main) => Some(main),
        _ => None,
    });
    let nested_in = main.filter(|main| repository.as_ref().is_some_and(|it| it.starts_with(main)));
    project(&mut loader, repository.as_deref(), nested_in.as_deref());
    added_directories(&mut loader);
    memory::load(&mut loader, repository.as_deref());
    for file in &session.reads {
        read(&mut loader, &absolute(&session.cwd, file));
    }

    rules::report(&mut loader);
    let mut report = loader.report;
    if let Some(switch) = off {
        report.clear_diagnostics();
        report.withhold(&Rule::SwitchedOff(switch));
    }
    report
}

fn managed(loader: &mut Loader<'_>) {
    let directory = loader.session.etc.join("claude-code");
    loader.load(&directory.join("CLAUDE.md"), LoadReason::Managed, Level::Managed);
    if let Some(text) = loader.settings.managed_text.clone() {
        loader.take_managed_text(&directory.join("managed-settings.json"), &text);
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

fn project(loader: &mut Loader<'_>, repository: Option<&Path>, nested_in: Option<&Path>) {
    let mut skipped = false;
    for directory in place::chain(&loader.session.cwd) {
        // The main checkout around a nested worktree holds the same files at another commit.
        let main = nested_in.filter(|main| {
            directory.starts_with(main)
                && !repository.is_some_and(|root| directory.starts_with(root))
        });
        match main {
            None => shared_files(loader, &directory, &LoadReason::Project),
            Some(main) => {
                let rule = Rule::MainCheckout(main.to_owned());
                for name in ["CLAUDE.md", ".claude/CLAUDE.md"] {
                    skipped |= loader.ignore_if_there(&directory.join(name), rule.clone());
                }
            }
        }
        local_file(loader, &directory, &LoadReason::Local);
    }
    if let (true, Some(main)) = (skipped, nested_in) {
        let message = format!(
            "this worktree lies inside its main checkout {}, whose CLAUDE.md is skipped",
            main.display()
        );
        loader.report.warn(diagnostics::WORKTREE_NESTED, main, message);
    }
}

/// The files of a directory that are checked in.
fn shared_files(loader: &mut Loader<'_>, directory: &Path, why: &LoadReason) {
    let paths = ["CLAUDE.md", ".claude/CLAUDE.md"].map(|name| directory.join(name));
    if !loader.settings.sources.project {
        for path in paths {
            loader.ignore_if_there(&path, Rule::SwitchedOff("--setting-sources"));
        }
        return;
    }
    for path in paths {
        loader.load(&path, why.clone(), Level::Project);
    }
    rules::load(loader, &directory.join(".claude/rules"), Level::Project);
}

fn local_file(loader: &mut Loader<'_>, directory: &Path, why: &LoadReason) {
    let path = directory.join("CLAUDE.local.md");
    if loader.settings.sources.local {
        loader.load(&path, why.clone(), Level::Local);
    } else {
        loader.ignore_if_there(&path, Rule::SwitchedOff("--setting-sources"));
    }
}

fn added_directories(loader: &mut Loader<'_>) {
    for directory in loader.session.directories("--add-dir") {
        if loader.settings.reads_added_directories {
            shared_files(loader, &directory, &LoadReason::ExtraDirectory);
            local_file(loader, &directory, &LoadReason::ExtraDirectory);
            continue;
        }
        let names = ["CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md"];
        let mut unread = false;
        for name in names {
            unread |= loader.ignore_if_there(&directory.join(name), Rule::AddedDirectory);
        }
        if unread {
            let message = format!("the instructions in {} are not read", directory.display());
            let report = &mut loader.report;
            report.warn(diagnostics::ADDED_DIRECTORY_UNREAD, &directory, message);
        }
    }
}

/// What is added when the model reads a file: rules that match it, and the files of the directories
/// between the working directory and it.
fn read(loader: &mut Loader<'_>, file: &Path) {
    let Ok(below) = file.strip_prefix(&loader.session.cwd) else {
        return;
    };
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
    for directory in directories {
        if loader.settings.sources.project {
            loader.load(&directory.join("CLAUDE.md"), why.clone(), Level::Project);
            let nested = directory.join(".claude/CLAUDE.md");
            loader.load(&nested, why.clone(), Level::Project);
        }
        local_file(loader, &directory, &why);
        if loader.settings.sources.project {
            rules::load(loader, &directory.join(".claude/rules"), Level::Project);
            rules::load_matching_of(loader, file, &directory);
        }
    }
    rules::load_matching(loader, file, Level::Project);
}

#[cfg(test)]
mod tests;
