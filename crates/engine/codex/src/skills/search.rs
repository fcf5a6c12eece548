//! Searches for skills in the same directories as Codex.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use convoke_files::limit::TooManyEntries;
use convoke_files::{EntryKind, FileKind, Files};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{FoundSkill, FoundSkills, RejectedSkill, SYSTEM_FOLDER, Scope, front_matter};
use crate::config::{directories_between, project_root};
use crate::project_doc::Rules;

/// The name of the file that describes a skill.
pub const FILE_NAME: &str = "SKILL.md";

const MAX_DEPTH: usize = 6;
const MAX_FOLDERS: usize = 2000;

/// The number of bytes read from a `SKILL.md`: far more than front matter has.
const HEAD: u64 = FileKind::FrontMatter.limit() * 2;

/// The inputs of the search, besides files.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// The version whose rules apply.
    pub rules: Rules,
    /// The working directory.
    pub cwd: &'a Path,
    /// Codex's own directory.
    pub codex_home: &'a Path,
    /// The user's home; `None` if `.agents/skills` in it is not searched.
    pub home: Option<&'a Path>,
    /// The directory of the machine's configuration, `/etc/codex`.
    pub machine: &'a Path,
    /// `project_root_markers`.
    pub root_markers: &'a [String],
    /// Whether the skills installed in Codex's own directory count.
    pub has_system: bool,
}

impl Search<'_> {
    /// Returns the directories of skills, in the order of the search.
    pub fn roots(&self, files: &dyn Files) -> Vec<(PathBuf, Scope)> {
        let root = project_root(files, self.cwd, self.root_markers);
        let project = directories_between(&root, self.cwd);
        let below = |folder: &'static str| {
            project.iter().map(move |it| (it.join(folder), Scope::Repo)).collect::<Vec<_>>()
        };
        let of_codex = self.codex_home.join("skills");
        let mut roots = below(".codex/skills");
        // Codex's own directory inside a project belongs to the user.
        roots.retain(|(root, _)| *root != of_codex);
        roots.reverse();
        roots.push((of_codex.clone(), Scope::User));
        roots.extend(self.home.map(|home| (home.join(".agents/skills"), Scope::User)));
        if self.has_system {
            roots.push((of_codex.join(SYSTEM_FOLDER), Scope::System));
        }
        roots.push((self.machine.join("skills"), Scope::Admin));
        let mut agents = below(".agents/skills");
        if self.rules == Rules::V0_98 {
            agents.reverse();
        }
        roots.extend(agents);
        roots
    }
}

/// Finds the skills of a working directory.
///
/// Lists every folder below the roots, up to 2000 per root, and reads the head of each `SKILL.md`.
pub fn find(files: &dyn Files, search: &Search<'_>) -> FoundSkills {
    let mut finder =
        Finder { files, rules: search.rules, seen: HashSet::new(), plugins: HashMap::new() };
    let mut found = FoundSkills::default();
    for (root, scope) in search.roots(files) {
        finder.search(&root, scope, &mut found);
    }
    found
}

struct Finder<'a> {
    files: &'a dyn Files,
    rules: Rules,
    /// The files found so far, with links resolved.
    seen: HashSet<OsString>,
    /// The plugins of the directories looked up so far.
    plugins: HashMap<OsString, Option<String>>,
}

/// A folder that is searched.
struct Folder {
    /// The path starting at the root.
    path: PathBuf,
    /// The path without links.
    real: PathBuf,
    depth: usize,
}

impl Finder<'_> {
    /// Searches the folders below a root, nearest first.
    fn search(&mut self, root: &Path, scope: Scope, found: &mut FoundSkills) {
        // Most roots do not exist, and resolving links reads every directory above.
        if !matches!(self.files.kind(root), Ok(EntryKind::Directory)) {
            return;
        }
        let Ok(real) = self.files.canonicalize(root) else {
            return;
        };
        let mut visited = HashSet::from([OsString::from(real.clone())]);
        let mut queue = VecDeque::from([Folder { path: root.to_owned(), real, depth: 0 }]);
        while let Some(folder) = queue.pop_front() {
            let entries = self.files.entries(&folder.real).unwrap_or_else(|error| {
                if TooManyEntries::from_error(&error).is_some() {
                    let (path, reason) = (folder.path.clone(), error.to_string());
                    found.rejected.push(RejectedSkill { path, scope, reason });
                }
                Vec::new()
            });
            for (name, kind) in &entries {
                if name.as_encoded_bytes().starts_with(b".") {
                    continue;
                }
                let real = folder.real.join(name);
                let is_link = *kind == EntryKind::Symlink;
                let leads_to = match kind {
                    EntryKind::Symlink if scope == Scope::System => continue,
                    EntryKind::Symlink => self.files.kind(&real).ok(),
                    kind => Some(*kind),
                };
                match leads_to {
                    Some(EntryKind::Directory) if folder.depth < MAX_DEPTH => {
                        let real =
                            if is_link { self.files.canonicalize(&real).ok() } else { Some(real) };
                        let Some(real) = real else { continue };
                        if visited.len() >= MAX_FOLDERS {
                            if found.limited.last().is_none_or(|last| last != root) {
                                found.limited.push(root.to_owned());
                            }
                        } else if visited.insert(real.clone().into()) {
                            let path = folder.path.join(name);
                            queue.push_back(Folder { path, real, depth: folder.depth + 1 });
                        }
                    }
                    Some(EntryKind::File) if name == FILE_NAME && !is_link => {
                        self.take(&folder, &entries, root, scope, found);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Adds the `SKILL.md` of a folder.
    fn take(
        &mut self,
        folder: &Folder,
        entries: &[(OsString, EntryKind)],
        root: &Path,
        scope: Scope,
        found: &mut FoundSkills,
    ) {
        let real_path = folder.real.join(FILE_NAME);
        if !self.seen.insert(real_path.clone().into()) {
            return;
        }
        let path = match self.rules {
            Rules::V0_98 => real_path.clone(),
            Rules::V0_166 => folder.path.join(FILE_NAME),
        };
        let text = self.head(&real_path).map_err(|error| error.to_string());
        let directory = folder.path.file_name().map(|name| name.to_string_lossy());
        let named = text.and_then(|text| front_matter::read(&text, self.rules)).and_then(|about| {
            let name = about.name.clone().or(directory.map(Into::into)).unwrap_or_default();
            front_matter::check_name(&name).map(|()| (name, about))
        });
        match named {
            Ok((name, about)) => {
                let has_agents = entries.iter().any(|(name, _)| name == "agents");
                let of_plugin = self.rules == Rules::V0_166;
                found.skills.push(FoundSkill {
                    name: match of_plugin.then(|| self.plugin(&folder.real)).flatten() {
                        Some(plugin) => format!("{plugin}:{name}"),
                        None => name,
                    },
                    description: about.description,
                    stated: about.stated,
                    is_hidden: of_plugin && has_agents && self.is_hidden(&folder.real),
                    path,
                    real_path,
                    root: root.to_owned(),
                    scope,
                });
            }
            Err(reason) => found.rejected.push(RejectedSkill { path, scope, reason }),
        }
    }

    /// Reads the head of a file, which must be UTF-8.
    fn head(&self, path: &Path) -> io::Result<String> {
        let head = self.files.read_head(path, HEAD)?;
        let is_whole = head.bytes.len() as u64 == head.size;
        let mut bytes = head.bytes;
        if let Err(wrong) = std::str::from_utf8(&bytes)
            && wrong.error_len().is_none()
            && !is_whole
        {
            bytes.truncate(wrong.valid_up_to());
        }
        String::from_utf8(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
    }

    /// Returns the plugin of a directory: the nearest directory above it with a manifest.
    fn plugin(&mut self, directory: &Path) -> Option<String> {
        if let Some(known) = self.plugins.get(directory.as_os_str()) {
            return known.clone();
        }
        let own = self.manifest(directory);
        let plugin = own.or_else(|| self.plugin(directory.parent()?));
        self.plugins.insert(directory.into(), plugin.clone());
        plugin
    }

    fn manifest(&self, directory: &Path) -> Option<String> {
        #[derive(Deserialize)]
        struct Manifest {
            name: Option<String>,
        }
        let path = directory.join(".codex-plugin/plugin.json");
        let text = self.files.read_text(&path, FileKind::Configuration).ok()?;
        let manifest: Manifest = serde_json::from_str(&text).ok()?;
        let name = manifest.name.filter(|name| !name.trim().is_empty());
        name.or_else(|| Some(directory.file_name()?.to_string_lossy().into_owned()))
    }

    /// Returns whether the policy of a skill hides it from the list. A file with a value of the wrong type is
    /// ignored.
    fn is_hidden(&self, directory: &Path) -> bool {
        let path = directory.join("agents/openai.yaml");
        let Ok(text) = self.files.read_text(&path, FileKind::FrontMatter) else {
            return false;
        };
        if convoke_files::yaml::check(&text).is_err() {
            return false;
        }
        let written = yaml_serde::from_str::<OpenAi>(&text).ok();
        written.and_then(|it| it.policy).is_some_and(|policy| {
            let is_for_others =
                !policy.products.is_empty() && !policy.products.contains(&Product::Codex);
            policy.allow_implicit_invocation == Some(false) || is_for_others
        })
    }
}

/// `agents/openai.yaml`, beside a skill.
#[derive(Deserialize)]
struct OpenAi {
    policy: Option<Policy>,
    #[serde(rename = "interface")]
    _interface: Option<Interface>,
    #[serde(rename = "dependencies")]
    _dependencies: Option<Dependencies>,
}

#[derive(Deserialize)]
struct Policy {
    allow_implicit_invocation: Option<bool>,
    #[serde(default)]
    products: Vec<Product>,
}

/// A product that a skill is for.
#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Product {
    #[serde(alias = "CODEX")]
    Codex,
    #[serde(alias = "CHATGPT")]
    Chatgpt,
    #[serde(alias = "ATLAS")]
    Atlas,
}

#[derive(Deserialize)]
struct Interface {
    #[serde(rename = "display_name")]
    _display_name: Option<String>,
    #[serde(rename = "short_description")]
    _short_description: Option<String>,
    #[serde(rename = "default_prompt")]
    _default_prompt: Option<String>,
}

#[derive(Deserialize)]
struct Dependencies {
    #[serde(rename = "tools", default)]
    _tools: Vec<IgnoredAny>,
}
