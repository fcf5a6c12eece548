//! Codex 0.98 and 0.166: one AGENTS.md for each directory from the root down, within a budget.
//!
//! The rules themselves are those of [`convoke_codex::project_doc`]; here they are asked for a place
//! and a configuration.

mod config;
mod skills;

use std::path::{Path, PathBuf};

use convoke_codex::project_doc::{
    self, Document, IgnoreReason, Ignored, Rules, discover, user_doc,
};
use convoke_core::Diagnostic;
use convoke_files::{Files, absolute};

use convoke_explain::Session;
use convoke_explain::text::looks_like_utf16;
use convoke_explain::{AgentReport, Limit, LoadReason, Loaded, Rule};
use convoke_explain::{Edition, EditionFacts, LoadingRules};

use config::Config;
use convoke_explain::diagnostics;

const NAMES: [&str; 2] = ["AGENTS.override.md", "AGENTS.md"];

/// The loading rules of Codex.
pub static RULES: LoadingRules = LoadingRules {
    agent: "codex",
    title: "Codex",
    place: 2,
    is_optional: false,
    editions: &[
        EditionFacts { version: "0.98", since: [0, 0, 0] },
        EditionFacts { version: "0.166", since: [0, 99, 0] },
    ],
    main_file: "AGENTS.md",
    skills_directory: ".agents/skills",
    wrapper_ends: &["</INSTRUCTIONS>"],
    loads_above_root: false,
    variables: &["CODEX_HOME"],
    explain: |files, session, edition| {
        let rules = if edition.index() == 0 { Rules::V0_98 } else { Rules::V0_166 };
        explain(files, session, rules)
    },
    compare_editions: versions_differ,
};

fn edition(rules: Rules) -> Edition {
    Edition::new(&RULES, usize::from(rules != Rules::V0_98))
}

/// A start of Codex: where, and with which configuration.
struct Start {
    rules: Rules,
    cwd: PathBuf,
    codex_home: PathBuf,
    config: Config,
}

impl Start {
    fn new(files: &dyn Files, session: &Session, rules: Rules, report: &mut AgentReport) -> Self {
        let cwd = working_directory(files, session, rules);
        let codex_home = session.directory("CODEX_HOME", ".codex");
        let config = Config::read(files, session, &codex_home, &cwd, rules, report);
        Self { rules, cwd, codex_home, config }
    }
}

/// Finds what Codex loads; the session's directory must be free of links.
fn explain(files: &dyn Files, session: &Session, rules: Rules) -> AgentReport {
    let mut report = AgentReport::new(edition(rules));
    let start = Start::new(files, session, rules, &mut report);
    load_documents(files, session, &start, &mut report);
    skills::explain(files, session, &start, &mut report);
    if !start.config.is_usable {
        report.withhold(&Rule::NoRequest("Codex does not start with this configuration"));
    }
    report
}

/// Finds the documents alone that Codex loads.
fn documents(files: &dyn Files, session: &Session, rules: Rules) -> AgentReport {
    let mut report = AgentReport::new(edition(rules));
    let start = Start::new(files, session, rules, &mut report);
    load_documents(files, session, &start, &mut report);
    if !start.config.is_usable {
        report.withhold(&Rule::NoRequest("Codex does not start with this configuration"));
    }
    report
}

fn load_documents(files: &dyn Files, session: &Session, start: &Start, report: &mut AgentReport) {
    let Start { rules, cwd, codex_home, config } = start;
    let rules = *rules;
    report.limit = Some(Limit::Shared(config.max_bytes));
    let fallbacks = config.fallback_names.iter().map(|name| name.trim().to_owned());
    let names = NAMES.map(str::to_owned).into_iter().chain(fallbacks);
    report.search.names = names.filter(|name| !name.is_empty()).collect();

    let user = user_doc(files, codex_home, rules);
    report.diagnose_all(user.diagnostics);
    take_ignored(report, user.ignored);
    if let Some(document) = user.document {
        let why = LoadReason::User;
        take(files, report, document, why);
    }

    let settings = project_doc::Settings {
        rules,
        cwd,
        max_bytes: config.max_bytes,
        fallback_names: &config.fallback_names,
        root_markers: &config.root_markers,
        trust: config.trust,
    };
    let project = discover(files, &settings);
    report.search.top =
        project.chain.first().filter(|_| config.has_root(files, cwd, rules)).cloned();
    report.diagnose_all(project.diagnostics);
    report_blank(report, &project.ignored);
    take_ignored(report, project.ignored);
    for document in project.documents {
        let name = document.path.file_name().and_then(|name| name.to_str());
        let is_default = name.is_some_and(|name| NAMES.contains(&name));
        let why = if is_default { LoadReason::Project } else { LoadReason::Fallback };
        take(files, report, document, why);
    }
    report_added_directories(files, session, report);
}

/// The directory that `-C` names, or the session's. Of a given one, Codex 0.166 does not resolve links.
fn working_directory(files: &dyn Files, session: &Session, rules: Rules) -> PathBuf {
    let given = ["-C", "--cd"].into_iter().find_map(|name| session.values(name).pop());
    match given {
        None => files.canonicalize(&session.cwd).unwrap_or_else(|_| session.cwd.clone()),
        Some(given) => {
            let given = absolute(&session.cwd, Path::new(given));
            match rules {
                Rules::V0_98 => files.canonicalize(&given).unwrap_or(given),
                Rules::V0_166 => given,
            }
        }
    }
}

fn take(files: &dyn Files, report: &mut AgentReport, document: Document, why: LoadReason) {
    let path = &document.path;
    if files.read_head(path, 64).is_ok_and(|head| looks_like_utf16(&head.bytes)) {
        let message = format!("{} is UTF-16 and arrives as garbage", path.display());
        report.warn(diagnostics::FILE_UTF16, path, message);
    }
    report.loaded.push(Loaded {
        real_path: files.canonicalize(path).unwrap_or_else(|_| path.clone()),
        bytes: document.size,
        bytes_loaded: document.text.len() as u64,
        whole: document.is_whole(),
        why,
        text: document.text,
        path: document.path,
        depth: 0,
        is_pasted: false,
    });
}

fn take_ignored(report: &mut AgentReport, ignored: Vec<Ignored>) {
    for Ignored { path, reason } in ignored {
        report.ignore(&path, rule(reason));
    }
}

fn rule(reason: IgnoreReason) -> Rule {
    match reason {
        IgnoreReason::Shadowed { by } => Rule::Shadowed(by),
        IgnoreReason::Blank => Rule::Blank,
        IgnoreReason::OverBudget => Rule::OverBudget,
        IgnoreReason::Dangling => Rule::Dangling,
        IgnoreReason::Directory => Rule::Directory,
        IgnoreReason::NotRegular => Rule::NotRegular,
        IgnoreReason::Unreadable { error } => Rule::Unreadable(error),
        IgnoreReason::LostWith { unreadable } => Rule::LostWith(unreadable),
        IgnoreReason::SwitchedOff => Rule::SwitchedOff("project_doc_max_bytes = 0"),
        IgnoreReason::Untrusted => Rule::Untrusted,
        IgnoreReason::NotUtf8 => Rule::NotUtf8,
        IgnoreReason::NotAFileName => Rule::NotAFileName,
    }
}

/// Reports a blank file that hides others in its directory.
fn report_blank(report: &mut AgentReport, ignored: &[Ignored]) {
    let blank = ignored.iter().filter(|file| file.reason == IgnoreReason::Blank);
    for blank in blank {
        let shadowed = ignored.iter().find(|file| match &file.reason {
            IgnoreReason::Shadowed { by } => *by == blank.path,
            _ => false,
        });
        if let Some(shadowed) = shadowed {
            let message = format!(
                "{} is blank and still keeps {} out",
                blank.path.display(),
                shadowed.path.display()
            );
            report.warn(diagnostics::AGENTS_MD_BLANK, &blank.path, message);
        }
    }
}

fn report_added_directories(files: &dyn Files, session: &Session, report: &mut AgentReport) {
    for directory in session.directories("--add-dir") {
        let paths = NAMES.map(|name| directory.join(name));
        for path in paths {
            if files.entry_kind(&path).is_ok() && !report.mentions(&path) {
                report.ignore(&path, Rule::AddedDirectory);
                let message = format!("the instructions in {} are not read", directory.display());
                report.warn(diagnostics::ADDED_DIRECTORY_UNREAD, &directory, message);
            }
        }
    }
}

/// The files that the two versions of Codex treat differently here.
fn versions_differ(
    files: &dyn Files,
    session: &Session,
    agents: &[AgentReport],
) -> Option<Diagnostic> {
    let loaded = |rules| {
        let sizes = |report: &AgentReport| {
            let files = report.loaded.iter();
            files.map(|file| (file.path.clone(), file.bytes_loaded)).collect::<Vec<_>>()
        };
        match agents.iter().find(|agent| agent.edition == edition(rules)) {
            Some(report) => sizes(report),
            None => sizes(&documents(files, session, rules)),
        }
    };
    let (old, new) = (loaded(Rules::V0_98), loaded(Rules::V0_166));
    if old == new {
        return None;
    }
    let only = |left: &[(PathBuf, u64)], right: &[(PathBuf, u64)]| {
        let mut files = left.iter().filter(|file| !right.contains(file));
        files.next().map(|(path, _)| path.clone())
    };
    let (path, old_has_it) = match (only(&old, &new), only(&new, &old)) {
        (Some(path), _) => (path, true),
        (None, Some(path)) => (path, false),
        (None, None) => return None,
    };
    let (has, has_not) = if old_has_it { ("0.98", "0.166") } else { ("0.166", "0.98") };
    let message = format!(
        "{} is loaded by Codex {has} and not, or not alike, by Codex {has_not}",
        path.display()
    );
    Some(Diagnostic::new(diagnostics::VERSIONS_DIFFER, message).at_path(path.to_string_lossy()))
}

#[cfg(test)]
mod tests;
