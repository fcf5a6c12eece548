//! The report on each agent: loaded files, ignored files and diagnostics.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use convoke_core::diagnostic::{Code, Diagnostic};
use serde::{Serialize, Serializer};

use crate::edition::Edition;
use crate::place::ByPath;
use crate::skills::{OmittedSkill, Skill, SkillRule, SkillSource, SkillsBudget};
use convoke_core::diagnostics;

/// The report on all agents in one directory.
#[derive(Debug, Clone, Serialize)]
pub struct DirectoryReport {
    /// The version of this format.
    pub version: u32,
    /// The directory, without links.
    #[serde(serialize_with = "as_text")]
    pub cwd: PathBuf,
    /// The root of the repository around it.
    #[serde(skip)]
    pub repository: Option<PathBuf>,
    /// One entry for each agent that was asked about.
    pub agents: Vec<AgentReport>,
}

/// The report on one agent.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentReport {
    /// The agent's name.
    pub agent: &'static str,
    /// The version that is explained: that of the edition unless the caller knows which is installed.
    pub version: String,
    /// The edition whose rules were applied.
    #[serde(rename = "rulesOf")]
    pub edition: Edition,
    /// Whether the program itself was verified to load the same; `None` if it was not run.
    pub verified: Option<bool>,
    /// The files that reach the model, in order.
    pub loaded: Vec<Loaded>,
    /// The instruction files that exist but are not loaded.
    pub ignored: Vec<Ignored>,
    /// The listed skills, in the order of the list.
    pub skills: Vec<Skill>,
    /// The skills that exist here but are not listed.
    pub skills_omitted: Vec<OmittedSkill>,
    /// The limit on the list of skills.
    pub skills_budget: Option<SkillsBudget>,
    /// The diagnostics.
    pub diagnostics: Vec<Diagnostic>,
    /// The limit on the size of files.
    #[serde(skip)]
    pub limit: Option<Limit>,
    /// The reason why the program makes no request, whether or not there are files to load.
    #[serde(skip)]
    pub no_request: Option<&'static str>,
    /// The search of the agent.
    #[serde(skip)]
    pub search: Search,
    /// The index in `ignored` by path.
    #[serde(skip)]
    ignored_at: ByPath<usize>,
    /// The indices in `ignored` of files that are loaded after all; they are removed together.
    #[serde(skip)]
    withdrawn: HashSet<usize>,
    #[serde(skip)]
    given: HashMap<(Code, Option<String>), Given>,
}

/// The maximum number of diagnostics of one kind about one file.
const MAX_ALIKE: usize = 20;

/// The diagnostics of one code about one file.
#[derive(Debug, Clone, Default)]
struct Given {
    first: Option<usize>,
    once: HashSet<(Option<u64>, String)>,
}

/// The search of an agent for project files.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// The names that it reads.
    pub names: Vec<String>,
    /// The top directory of the search, if a marker decides it.
    pub top: Option<PathBuf>,
}

/// A limit on the size of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// All project files together.
    Shared(u64),
    /// Each file by itself.
    EachFile(u64),
    /// Everything together.
    Total(u64),
}

/// A file that reaches the model.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Loaded {
    /// The path under which it was found.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// The bytes of the file.
    pub bytes: u64,
    /// The number of bytes in the request, including imports pasted into it.
    pub bytes_loaded: u64,
    /// Whether all of it arrives, outer white space aside.
    pub whole: bool,
    /// The reason why it is loaded.
    pub why: LoadReason,
    /// The text that arrives.
    #[serde(skip)]
    pub text: String,
    /// The file without links.
    #[serde(skip)]
    pub real_path: PathBuf,
    /// The number of imports that lead to it.
    #[serde(skip)]
    pub depth: usize,
    /// Whether its text is pasted into the importing file.
    #[serde(skip)]
    pub is_pasted: bool,
}

/// The reason why a file is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadReason {
    /// The administrator's instructions.
    Managed,
    /// The user's own instructions.
    User,
    /// A rule in a rules directory.
    Rule,
    /// A rule whose `paths:` match a file that was read.
    MatchingRule(PathBuf),
    /// The instructions of a directory from the root to the working directory.
    Project,
    /// A person's own instructions for a project.
    Local,
    /// The instructions of a further directory of the workspace.
    ExtraDirectory,
    /// The agent's own notes.
    Memory,
    /// An extension's instructions.
    Extension(String),
    /// Another file imports it on this line.
    Import {
        /// That file.
        by: PathBuf,
        /// The 1-based line.
        line: u64,
    },
    /// A file in or below its directory was read.
    Read(PathBuf),
    /// A configured fallback for AGENTS.md.
    Fallback,
}

impl fmt::Display for LoadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadReason::Managed => f.write_str("managed instructions of this machine"),
            LoadReason::User => f.write_str("user instructions"),
            LoadReason::Rule => f.write_str("rule"),
            LoadReason::MatchingRule(path) => {
                write!(f, "rule whose paths match {}, which was read", path.display())
            }
            LoadReason::Project => f.write_str("project instructions"),
            LoadReason::Local => f.write_str("local project instructions"),
            LoadReason::ExtraDirectory => {
                f.write_str("instructions of a further workspace directory")
            }
            LoadReason::Memory => f.write_str("memory that the agent wrote"),
            LoadReason::Extension(name) => write!(f, "instructions of the extension {name}"),
            LoadReason::Import { by, line } => write!(f, "imported by {}:{line}", by.display()),
            LoadReason::Read(path) => write!(f, "{} was read", path.display()),
            LoadReason::Fallback => f.write_str("fallback name in place of AGENTS.md"),
        }
    }
}

impl Serialize for LoadReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An instruction file that exists but is not loaded.
#[derive(Debug, Clone, Serialize)]
pub struct Ignored {
    /// The path.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// The rule that keeps it out.
    pub rule: Rule,
}

/// The rule that keeps a file out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// Another agent's file.
    OtherAgent(&'static str),
    /// A name that is right but for its case.
    WrongCase(&'static str),
    /// The right name in a place where it is not looked for.
    WrongPlace,
    /// It is above the directory where the search stops.
    AboveRoot(PathBuf),
    /// It is above the working directory, and there is no project marker.
    NoRoot,
    /// A file of the same directory comes before it.
    Shadowed(PathBuf),
    /// It is empty without white space and comments.
    Blank,
    /// The shared budget was used up.
    OverBudget,
    /// It is larger than the agent accepts.
    TooLarge(u64),
    /// It is a link that leads nowhere.
    Dangling,
    /// It is a directory, or a link to one.
    Directory,
    /// It is neither a file nor a directory: a pipe, a socket or a device.
    NotRegular,
    /// It could not be read.
    Unreadable(String),
    /// Another file could not be read, which loses this one too.
    LostWith(PathBuf),
    /// The same file is loaded under another path.
    Duplicate(PathBuf),
    /// Another file with the same text is loaded.
    Copy(PathBuf),
    /// A setting excludes it.
    Excluded(String),
    /// A permission rule forbids to read it.
    Denied(String),
    /// A link that leads out of the directory that the agent allows.
    OutsideLink(PathBuf),
    /// A setting or switch turns files of its kind off.
    SwitchedOff(&'static str),
    /// The project is not trusted.
    Untrusted,
    /// The agent makes no request at all.
    NoRequest(&'static str),
    /// It counts only once a matching file is read.
    Conditional(String),
    /// It belongs to the main checkout of a nested worktree.
    MainCheckout(PathBuf),
    /// An import that leads out of the directory that the agent allows.
    OutsideImport {
        /// The importing file.
        by: PathBuf,
        /// The directory that it may import from.
        allowed: PathBuf,
    },
    /// An import below the deepest level.
    ImportTooDeep(PathBuf),
    /// An import of a kind of file that is not taken as text.
    ImportType(PathBuf),
    /// It is written like an import, but not in a way that counts.
    ImportForm(PathBuf),
    /// It is not valid UTF-8.
    NotUtf8,
    /// A fallback name that is a path.
    NotAFileName,
    /// An extension that names other files.
    ExtensionNamesOthers,
    /// Directories that were added bring no instructions.
    AddedDirectory,
    /// It is below the working directory, and is loaded once a file in or below its directory is read.
    OnRead,
    /// It is below the working directory, where the agent never looks.
    Below,
}

impl Rule {
    /// Returns whether the rule loses text that its author expects to be loaded.
    pub fn is_loss(&self) -> bool {
        match self {
            Self::OtherAgent(_)
            | Self::AboveRoot(_)
            | Self::NoRoot
            | Self::Shadowed(_)
            | Self::Blank
            | Self::Directory
            | Self::NotRegular
            | Self::Duplicate(_)
            | Self::Copy(_)
            | Self::Excluded(_)
            | Self::Denied(_)
            | Self::SwitchedOff(_)
            | Self::Conditional(_)
            | Self::MainCheckout(_)
            | Self::ExtensionNamesOthers
            | Self::AddedDirectory
            | Self::OnRead
            | Self::Below => false,
            Self::WrongCase(_)
            | Self::WrongPlace
            | Self::OverBudget
            | Self::TooLarge(_)
            | Self::Dangling
            | Self::Unreadable(_)
            | Self::LostWith(_)
            | Self::Untrusted
            | Self::NoRequest(_)
            | Self::OutsideLink(_)
            | Self::OutsideImport { .. }
            | Self::ImportTooDeep(_)
            | Self::ImportType(_)
            | Self::ImportForm(_)
            | Self::NotUtf8
            | Self::NotAFileName => true,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::OtherAgent(whose) => write!(f, "a file for {whose}"),
            Rule::WrongCase(name) => write!(f, "names are case-sensitive: it is not {name}"),
            Rule::WrongPlace => f.write_str("not looked for in this place"),
            Rule::AboveRoot(root) => write!(f, "above the project root {}", root.display()),
            Rule::NoRoot => f.write_str("above the working directory, which has no project root"),
            Rule::Shadowed(by) => write!(f, "shadowed by {}", by.display()),
            Rule::Blank => f.write_str("blank"),
            Rule::OverBudget => f.write_str("the byte budget was used up by files before it"),
            Rule::TooLarge(limit) => write!(f, "larger than {limit} bytes"),
            Rule::Dangling => f.write_str("a link that leads nowhere"),
            Rule::Directory => f.write_str("a directory"),
            Rule::NotRegular => f.write_str("neither a file nor a directory"),
            Rule::Unreadable(error) => write!(f, "unreadable: {error}"),
            Rule::LostWith(other) => write!(f, "lost because {} is unreadable", other.display()),
            Rule::Duplicate(other) => write!(f, "the same file as {}", other.display()),
            Rule::Copy(other) => write!(f, "the same text as {}", other.display()),
            Rule::Denied(rule) => write!(f, "denied by the permission rule {rule}"),
            Rule::OutsideLink(allowed) => {
                write!(f, "a link that leads out of {}", allowed.display())
            }
            Rule::Excluded(pattern) => write!(f, "excluded by claudeMdExcludes {pattern}"),
            Rule::SwitchedOff(what) => write!(f, "switched off by {what}"),
            Rule::Untrusted => f.write_str("the project is not trusted"),
            Rule::NoRequest(why) => write!(f, "no request is made: {why}"),
            Rule::Conditional(paths) => write!(f, "only when a file that matches {paths} is read"),
            Rule::MainCheckout(root) => {
                write!(f, "of the main checkout {}, outside this worktree", root.display())
            }
            Rule::OutsideImport { by, allowed } => write!(
                f,
                "imported by {}, which may import from {} only",
                by.display(),
                allowed.display()
            ),
            Rule::ImportTooDeep(by) => {
                write!(f, "imported by {}, too many levels deep", by.display())
            }
            Rule::ImportType(by) => {
                write!(f, "imported by {}, but not a kind of text file", by.display())
            }
            Rule::ImportForm(by) => {
                write!(f, "named in {}, but not in a way that imports it", by.display())
            }
            Rule::NotUtf8 => f.write_str("not valid UTF-8"),
            Rule::NotAFileName => f.write_str("a fallback name may not be a path"),
            Rule::ExtensionNamesOthers => f.write_str("the extension names other files"),
            Rule::AddedDirectory => f.write_str("added directories bring no instructions"),
            Rule::OnRead => f.write_str("only when a file in or below its directory is read"),
            Rule::Below => f.write_str("below the working directory"),
        }
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl AgentReport {
    /// Creates the report of an edition that loads nothing.
    pub fn new(edition: Edition) -> Self {
        Self {
            agent: edition.agent(),
            version: edition.version().to_owned(),
            edition,
            verified: None,
            loaded: Vec::new(),
            ignored: Vec::new(),
            skills: Vec::new(),
            skills_omitted: Vec::new(),
            skills_budget: None,
            diagnostics: Vec::new(),
            limit: None,
            no_request: None,
            search: Search::default(),
            ignored_at: ByPath::default(),
            withdrawn: HashSet::new(),
            given: HashMap::new(),
        }
    }

    /// Returns the number of bytes that reach the model; pasted imports count with their importer.
    pub fn bytes_loaded(&self) -> u64 {
        let counted = self.loaded.iter().filter(|file| !file.is_pasted);
        counted.map(|file| file.bytes_loaded).sum()
    }

    /// Returns whether a path is accounted for already.
    pub fn mentions(&self, path: &Path) -> bool {
        self.ignored_at.contains_key(path.as_os_str())
            || self.loaded.iter().any(|file| file.path == path || file.real_path == path)
    }

    /// Records an ignored file, once.
    pub fn ignore(&mut self, path: &Path, rule: Rule) {
        if let Entry::Vacant(entry) = self.ignored_at.entry(path.as_os_str().to_owned()) {
            entry.insert(self.ignored.len());
            let path = path.to_owned();
            self.ignored.push(Ignored { path, rule });
        }
    }

    /// Removes a file from the files that are not loaded, because it is loaded now.
    pub fn unignore(&mut self, path: &Path) {
        if let Some(at) = self.ignored_at.remove(path.as_os_str()) {
            self.withdrawn.insert(at);
        }
    }

    /// Keeps the ignored files that were not loaded after all and that `counts` accepts.
    pub fn retain_ignored(&mut self, counts: impl Fn(&Path) -> bool) {
        let withdrawn = std::mem::take(&mut self.withdrawn);
        let ignored = std::mem::take(&mut self.ignored).into_iter().enumerate();
        let kept = ignored.filter(|(at, file)| !withdrawn.contains(at) && counts(&file.path));
        self.ignored = kept.map(|(_, file)| file).collect();
        let places = self.ignored.iter().enumerate();
        self.ignored_at = places.map(|(at, file)| (file.path.clone().into(), at)).collect();
    }

    /// Reports a file that could not be opened, and returns the rule. A directory of its name is not reported.
    pub fn miss(&mut self, path: &Path, error: &io::Error) -> Rule {
        let (rule, what) = match error.kind() {
            io::ErrorKind::IsADirectory => return Rule::Directory,
            io::ErrorKind::NotFound => (Rule::Dangling, "the link leads nowhere".to_owned()),
            _ => (Rule::Unreadable(error.to_string()), error.to_string()),
        };
        let message = format!("{} is left out: {what}", path.display());
        self.warn(diagnostics::FILE_UNREADABLE, path, message);
        rule
    }

    /// Adds a diagnostic about a file.
    pub fn warn(&mut self, code: Code, path: &Path, message: impl Into<String>) {
        self.diagnose(Diagnostic::new(code, message).at_path(path.to_string_lossy()));
    }

    /// Adds a diagnostic, once. For one code and file only a few are kept; the first has their count.
    pub fn diagnose(&mut self, diagnostic: Diagnostic) {
        let kind = (diagnostic.code.clone(), diagnostic.path.clone());
        let given = self.given.entry(kind).or_default();
        if !given.once.insert((diagnostic.line, diagnostic.message.clone())) {
            return;
        }
        if given.once.len() <= MAX_ALIKE {
            given.first.get_or_insert(self.diagnostics.len());
            self.diagnostics.push(diagnostic);
        } else if let Some(first) = given.first.and_then(|at| self.diagnostics.get_mut(at)) {
            first.count = Some(given.once.len() as u64);
        }
    }

    /// Adds diagnostics.
    pub fn diagnose_all(&mut self, diagnostics: impl IntoIterator<Item = Diagnostic>) {
        for diagnostic in diagnostics {
            self.diagnose(diagnostic);
        }
    }

    /// Removes all diagnostics.
    pub fn clear_diagnostics(&mut self) {
        self.diagnostics.clear();
        self.given.clear();
    }

    /// Removes all diagnostics except those of one code.
    pub fn clear_diagnostics_but(&mut self, kept: &Code) {
        self.diagnostics.retain(|diagnostic| diagnostic.code == *kept);
        self.given.retain(|(code, _), _| code == kept);
    }

    /// Marks all files as not loaded, because no request is made.
    pub fn withhold(&mut self, rule: &Rule) {
        for file in std::mem::take(&mut self.loaded) {
            self.ignore(&file.path, rule.clone());
        }
        let Rule::NoRequest(why) = rule else { return };
        self.no_request = Some(why);
        for skill in std::mem::take(&mut self.skills) {
            if let Some(path) = skill.path.filter(|_| skill.source != SkillSource::Builtin) {
                let rule = SkillRule::NoRequest(why);
                self.skills_omitted.push(OmittedSkill { name: Some(skill.name), path, rule });
            }
        }
        self.skills_budget = None;
    }
}

/// Serializes a path as text.
pub fn as_text<P: AsRef<Path>, S: Serializer>(path: &P, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.as_ref().display())
}
