//! A report as a table: a row for each file, a column for each agent.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::report::{AgentReport, DirectoryReport, LoadReason, Loaded, Rule};

/// A file, and its treatment by each agent.
#[derive(Debug)]
pub struct Row {
    pub path: PathBuf,
    /// The number of imports that lead to it.
    pub depth: usize,
    pub bytes: Option<u64>,
    pub cells: Vec<Cell>,
    /// The reason why the first agent that loads it does.
    pub why: Option<LoadReason>,
    /// The target, if it is a link.
    pub target: Option<PathBuf>,
}

/// The treatment of one file by one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// Loaded at this position, possibly several times.
    Loaded { place: usize, times: usize, is_whole: bool },
    /// Not a file that the agent reads.
    NotRead,
    /// Excluded by a rule, possibly on purpose.
    KeptOut,
    /// Lost, certainly not on purpose.
    Lost,
}

/// Arranges the files: those of the machine, those of the user, then from the top directory down, each followed by
/// its imports.
///
/// `size` returns the size of a file that no agent loads, and nothing for a link or a directory.
pub fn rows(report: &DirectoryReport, size: impl Fn(&Path) -> Option<u64>) -> Vec<Row> {
    let mut order = Order::new(base_paths(report));
    for agent in &report.agents {
        for file in &agent.loaded {
            if let LoadReason::Import { by, .. } = &file.why {
                order.insert_below(by, &file.path, file.depth);
            }
        }
        for file in &agent.ignored {
            if let Some(by) = importer(&file.rule) {
                order.insert_below(by, &file.path, 1);
            }
        }
    }
    let columns: Vec<_> = report.agents.iter().map(column).collect();
    let mut loaded: HashMap<&OsStr, &Loaded> = HashMap::new();
    for file in report.agents.iter().flat_map(|agent| &agent.loaded) {
        loaded.entry(file.path.as_os_str()).or_insert(file);
    }
    let row = |(path, depth): (PathBuf, usize)| {
        let first = loaded.get(path.as_os_str());
        let cells = columns.iter().map(|cells| cells.get(path.as_os_str()).copied());
        Row {
            bytes: first.map(|file| file.bytes).or_else(|| size(&path)),
            why: first.map(|file| file.why.clone()),
            target: first.filter(|file| file.real_path != path).map(|file| file.real_path.clone()),
            cells: cells.map(|cell| cell.unwrap_or(Cell::NotRead)).collect(),
            path,
            depth,
        }
    };
    order.paths.into_iter().map(row).collect()
}

/// The paths in display order, each with its import depth.
struct Order {
    paths: Vec<(PathBuf, usize)>,
    known: HashSet<OsString>,
}

impl Order {
    fn new(paths: Vec<PathBuf>) -> Self {
        let known = paths.iter().map(|path| path.clone().into()).collect();
        Self { paths: paths.into_iter().map(|path| (path, 0)).collect(), known }
    }
    fn insert_below(&mut self, by: &Path, path: &Path, depth: usize) {
        if !self.known.insert(path.as_os_str().to_owned()) {
            return;
        }
        let importer = self.paths.iter().position(|(known, _)| known == by);
        let at = importer.map_or(self.paths.len(), |importer| {
            let depth = self.paths[importer].1;
            let below = self.paths[importer + 1..].iter().take_while(|(_, it)| *it > depth);
            importer + 1 + below.count()
        });
        self.paths.insert(at, (path.to_owned(), depth));
    }
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

/// Returns the paths that are not imports, in display order.
fn base_paths(report: &DirectoryReport) -> Vec<PathBuf> {
    let mut paths = BTreeSet::new();
    for agent in &report.agents {
        let loaded =
            agent.loaded.iter().filter(|file| !matches!(file.why, LoadReason::Import { .. }));
        let ignored = agent.ignored.iter().filter(|file| importer(&file.rule).is_none());
        paths.extend(loaded.map(|file| file.path.as_os_str()));
        paths.extend(ignored.map(|file| file.path.as_os_str()));
    }
    let mut paths: Vec<_> = paths.into_iter().map(PathBuf::from).collect();
    // Files elsewhere, such as the user's own, come first; then the directories above the working directory
    // from the top down, then those below it.
    paths.sort_by_cached_key(|path| match chain_directory(&report.cwd, path) {
        Some(directory) => (1, directory.as_os_str().len()),
        None if path.starts_with(&report.cwd) => (2, 0),
        None => (0, 0),
    });
    paths
}

/// Returns the directory that a file belongs to; `.claude` and the like count as their parent.
fn chain_directory<'a>(cwd: &Path, path: &'a Path) -> Option<&'a Path> {
    let mut directory = path.parent()?;
    while let Some(name) = directory.file_name().and_then(|name| name.to_str()) {
        let belongs_above = name.starts_with('.') && !is_above(directory, cwd) || name == "rules";
        if !belongs_above {
            break;
        }
        directory = directory.parent()?;
    }
    is_above(directory, cwd).then_some(directory)
}

/// Returns whether a directory is `cwd` or above it. Compares bytes first, which is almost always enough.
fn is_above(directory: &Path, cwd: &Path) -> bool {
    let below = cwd.as_os_str().as_encoded_bytes();
    let below = below.strip_prefix(directory.as_os_str().as_encoded_bytes());
    below.is_some_and(|below| matches!(below, [] | [b'/', ..])) || cwd.starts_with(directory)
}

/// Returns the treatment of each file by one agent.
fn column(agent: &AgentReport) -> HashMap<&OsStr, Cell> {
    let mut cells = HashMap::new();
    for file in &agent.ignored {
        let cell = match &file.rule {
            Rule::OtherAgent(_) => Cell::NotRead,
            rule if rule.is_loss() => Cell::Lost,
            _ => Cell::KeptOut,
        };
        cells.insert(file.path.as_os_str(), cell);
    }
    for (index, file) in agent.loaded.iter().enumerate() {
        let first = Cell::Loaded { place: index + 1, times: 1, is_whole: file.whole };
        let cell = cells.entry(file.path.as_os_str()).or_insert(first);
        match cell {
            Cell::Loaded { place, times, .. } if *place <= index => *times += 1,
            Cell::Loaded { .. } => {}
            _ => *cell = first,
        }
    }
    cells
}
