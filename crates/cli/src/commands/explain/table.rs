//! The files side by side: a row for each, a column for each agent.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use convoke_explain::{AgentReport, Report, Rule, Why};

/// A file, and what each agent does with it.
#[derive(Debug)]
pub struct Row {
    pub path: PathBuf,
    /// How many imports lead to it.
    pub depth: usize,
    pub bytes: Option<u64>,
    pub cells: Vec<Cell>,
    /// Why the first agent that loads it does.
    pub why: Option<Why>,
}

/// What one agent does with one file.
#[derive(Debug, PartialEq, Eq)]
pub enum Cell {
    /// It is loaded at this place, perhaps several times.
    Loaded { place: usize, times: usize, is_whole: bool },
    /// It is not the agent's to load.
    NotRead,
    /// A rule keeps it out, as the user may well intend.
    KeptOut,
    /// It is lost, which nobody intends.
    Lost,
}

/// Arranges the files: the machine's, the user's, then from the top directory down, each with what it
/// imports below it.
pub fn rows(report: &Report) -> Vec<Row> {
    let mut order: Vec<(PathBuf, usize)> =
        base_paths(report).into_iter().map(|path| (path, 0)).collect();
    for agent in &report.agents {
        for file in &agent.loaded {
            if let Why::Import { by, .. } = &file.why {
                insert_below(&mut order, by, &file.path, file.depth);
            }
        }
        for file in &agent.ignored {
            if let Some(by) = importer(&file.rule) {
                insert_below(&mut order, by, &file.path, 1);
            }
        }
    }
    let row = |(path, depth): (PathBuf, usize)| Row {
        bytes: size(report, &path),
        why: why(report, &path),
        cells: report.agents.iter().map(|agent| cell(agent, &path)).collect(),
        path,
        depth,
    };
    order.into_iter().map(row).collect()
}

fn importer(rule: &Rule) -> Option<&Path> {
    match rule {
        Rule::OutsideImport { by, .. }
        | Rule::ImportTooDeep(by)
        | Rule::ImportType(by)
        | Rule::ImportForm(by) => Some(by),
        _ => None,
    }
}

/// The paths that no import leads to, in the order in which they are shown.
fn base_paths(report: &Report) -> Vec<PathBuf> {
    let mut paths = BTreeSet::new();
    for agent in &report.agents {
        let loaded = agent.loaded.iter().filter(|file| !matches!(file.why, Why::Import { .. }));
        let ignored = agent.ignored.iter().filter(|file| importer(&file.rule).is_none());
        paths.extend(loaded.map(|file| file.path.clone()));
        paths.extend(ignored.map(|file| file.path.clone()));
    }
    let mut paths: Vec<_> = paths.into_iter().collect();
    // Directories above the working directory come from the top down, after everything that lies
    // elsewhere, such as the user's own files.
    let place = |path: &PathBuf| {
        let directory = chain_directory(&report.cwd, path);
        directory.map(|directory| directory.components().count())
    };
    paths.sort_by(|left, right| place(left).cmp(&place(right)).then_with(|| left.cmp(right)));
    paths
}

/// The directory of the chain that a file belongs to; `.claude` and its like belong to their parent.
fn chain_directory<'a>(cwd: &Path, path: &'a Path) -> Option<&'a Path> {
    let mut directory = path.parent()?;
    while let Some(name) = directory.file_name().and_then(|name| name.to_str()) {
        let belongs_above = name.starts_with('.') && !cwd.starts_with(directory) || name == "rules";
        if !belongs_above {
            break;
        }
        directory = directory.parent()?;
    }
    cwd.starts_with(directory).then_some(directory)
}

fn insert_below(order: &mut Vec<(PathBuf, usize)>, by: &Path, path: &Path, depth: usize) {
    if order.iter().any(|(known, _)| known == path) {
        return;
    }
    let importer = order.iter().position(|(known, _)| known == by);
    let at = importer.map_or(order.len(), |importer| {
        let depth = order[importer].1;
        let below = order[importer + 1..].iter().take_while(|(_, it)| *it > depth);
        importer + 1 + below.count()
    });
    order.insert(at, (path.to_owned(), depth));
}

fn why(report: &Report, path: &Path) -> Option<Why> {
    let mut loaded = report.agents.iter().flat_map(|agent| &agent.loaded);
    loaded.find(|file| file.path == path).map(|file| file.why.clone())
}

fn size(report: &Report, path: &Path) -> Option<u64> {
    let mut loaded = report.agents.iter().flat_map(|agent| &agent.loaded);
    let known = loaded.find(|file| file.path == path).map(|file| file.bytes);
    // What nobody loads is still worth its size; a link or a directory has none.
    known.or_else(|| {
        let found = std::fs::symlink_metadata(path).ok()?;
        found.is_file().then_some(found.len())
    })
}

fn cell(agent: &AgentReport, path: &Path) -> Cell {
    let mut loaded = agent.loaded.iter().enumerate().filter(|(_, file)| file.path == path);
    if let Some((place, first)) = loaded.next() {
        return Cell::Loaded { place: place + 1, times: 1 + loaded.count(), is_whole: first.whole };
    }
    match agent.ignored.iter().find(|file| file.path == path).map(|file| &file.rule) {
        None | Some(Rule::OtherAgent(_)) => Cell::NotRead,
        Some(rule) if is_loss(rule) => Cell::Lost,
        Some(_) => Cell::KeptOut,
    }
}

/// Tells a loss from a rule that does what people expect of it.
pub fn is_loss(rule: &Rule) -> bool {
    match rule {
        Rule::OtherAgent(_)
        | Rule::AboveRoot(_)
        | Rule::NoRoot
        | Rule::Shadowed(_)
        | Rule::Blank
        | Rule::Directory
        | Rule::Duplicate(_)
        | Rule::Excluded(_)
        | Rule::SwitchedOff(_)
        | Rule::Conditional(_)
        | Rule::MainCheckout(_)
        | Rule::ExtensionNamesOthers
        | Rule::AddedDirectory => false,
        Rule::WrongCase(_)
        | Rule::WrongPlace
        | Rule::OverBudget
        | Rule::TooLarge(_)
        | Rule::Dangling
        | Rule::Unreadable(_)
        | Rule::LostWith(_)
        | Rule::Untrusted
        | Rule::NoRequest(_)
        | Rule::OutsideImport { .. }
        | Rule::ImportTooDeep(_)
        | Rule::ImportType(_)
        | Rule::ImportForm(_)
        | Rule::NotUtf8
        | Rule::NotAFileName => true,
    }
}
