//! Gemini CLI 0.61.0: GEMINI.md and configured names up to the project's marker, sorted by path.

mod discovery;
mod imports;
mod memory;
mod settings;
mod size;
mod skills;
mod system_text;
mod trust;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use convoke_core::whitespace::trim;
use convoke_files::{Files, absolute};

use convoke_explain::Session;
use convoke_explain::place::{self, ByPath};
use convoke_explain::text::looks_like_utf16;
use convoke_explain::{AgentReport, Limit, LoadReason, Loaded, Rule};
use convoke_explain::{EditionFacts, LoadingRules};

use convoke_explain::diagnostics;
use discovery::FoundFile;
use imports::Imports;
use settings::{ImportFormat, Settings};

/// The loading rules of Gemini CLI.
pub static RULES: LoadingRules = LoadingRules {
    agent: "gemini",
    title: "Gemini CLI",
    place: 1,
    is_optional: false,
    editions: &[EditionFacts { version: "0.61.0", since: [0, 0, 0] }],
    main_file: "GEMINI.md",
    skills_directory: ".agents/skills",
    wrapper_ends: &[
        "</loaded_context>",
        "</project_context>",
        "</extension_context>",
        "--- End of Context from:",
    ],
    loads_above_root: false,
    variables: &["GEMINI_CLI_HOME", "GEMINI_CLI_TRUST_WORKSPACE", system_text::VARIABLE],
    explain: |files, session, _| explain(files, session),
    compare_editions: |_, _, _| None,
};

/// Finds what Gemini CLI loads; the session's directory must be free of links.
fn explain(files: &dyn Files, session: &Session) -> AgentReport {
    let mut report = AgentReport::new(RULES.newest());
    report.limit = Some(Limit::Total(size::LIMIT_BYTES));
    let settings = Settings::read(files, session, &mut report);
    let is_trusted = trust::is_trusted(files, session, &settings, &mut report);
    report.search.names.clone_from(&settings.names);
    report.search.top = place::nearest_with(files, &session.cwd, &settings.markers);
    let mut loader = Loader {
        files,
        settings,
        report,
        seen: ByPath::default(),
        roots: ByPath::default(),
        written: 0,
    };

    let found = discovery::at_start(files, session, &loader.settings, &mut loader.report);
    for found in loader.without_duplicates(found) {
        loader.load(found);
    }
    for file in &session.reads {
        let file = absolute(&session.cwd, file);
        let found = discovery::on_read(files, session, &loader.settings, &file, &mut loader.report);
        for found in found {
            if !loader.is_seen(&found.path) {
                loader.load(found);
            }
        }
    }
    loader.report_order();
    loader.report_names();
    let extensions = discovery::extensions(files, &loader.settings);
    skills::explain(files, session, &loader.settings, &extensions, &mut loader.report);
    loader.withhold_if_refused(session, is_trusted);
    loader.report
}

struct Loader<'a> {
    files: &'a dyn Files,
    settings: Settings,
    report: AgentReport,
    /// The files that are loaded, by their identity: hard links are one file.
    seen: ByPath<PathBuf>,
    /// A cache of the project roots of directories.
    roots: ByPath<PathBuf>,
    /// The bytes that were loaded so far, imports included.
    written: usize,
}

impl Loader<'_> {
    fn is_seen(&self, path: &Path) -> bool {
        self.files.identity(path).is_ok_and(|identity| self.seen.contains_key(&identity))
    }

    fn identity(&self, path: &Path) -> OsString {
        self.files.identity(path).unwrap_or_else(|_| path.into())
    }

    /// Drops what leads to the same file as something before it; then sorts as it will arrive.
    fn without_duplicates(&mut self, found: Vec<FoundFile>) -> Vec<FoundFile> {
        let mut kept: Vec<FoundFile> = Vec::new();
        for found in found {
            let identity = self.identity(&found.path);
            match self.seen.get(&identity) {
                Some(first) if *first == found.path => {}
                Some(first) => {
                    let rule = Rule::Duplicate(first.clone());
                    self.report.ignore(&found.path, rule);
                }
                None => {
                    self.seen.insert(identity, found.path.clone());
                    kept.push(found);
                }
            }
        }
        kept.sort_by(FoundFile::arrival);
        kept
    }

    fn load(&mut self, found: FoundFile) {
        let FoundFile { path, why, .. } = found;
        let head = match self.files.read_head(&path, size::MORE_THAN_ANY_REQUEST as u64) {
            Ok(head) => head,
            Err(error) => {
                let rule = self.report.miss(&path, &error);
                self.report.ignore(&path, rule);
                return;
            }
        };
        let real_path = self.files.canonicalize(&path).unwrap_or_else(|_| path.clone());
        self.seen.insert(self.identity(&path), path.clone());
        let raw = String::from_utf8_lossy(&head.bytes);
        let is_jit = matches!(why, LoadReason::Read(_));
        let format = if is_jit { ImportFormat::Tree } else { self.settings.import_format };
        let root = self.project_of(path.parent().unwrap_or(&path));
        let mut imports = Imports::new(self.files, &root, self.written + raw.len());
        let text = imports.expand(&path, &raw, format, &mut self.report);
        self.written = imports.written;
        let text = match why {
            LoadReason::User | LoadReason::Memory => in_system_text(trim(&text)),
            _ => trim(&text).to_owned(),
        };
        if text.is_empty() {
            self.report.ignore(&path, Rule::Blank);
            return;
        }
        if looks_like_utf16(&head.bytes) {
            let message = format!("{} is UTF-16 and arrives as garbage", path.display());
            self.report.warn(diagnostics::FILE_UTF16, &path, message);
        }
        if why == LoadReason::Memory {
            let message = format!(
                "{} is loaded too: {} bytes that Gemini CLI wrote",
                path.display(),
                head.size
            );
            self.report.warn(diagnostics::MEMORY_LOADED, &path, message);
        }
        self.report.unignore(&path);
        self.report.loaded.push(Loaded {
            path,
            bytes: head.size,
            bytes_loaded: text.len() as u64,
            whole: true,
            why,
            text,
            real_path,
            depth: 0,
            is_pasted: false,
        });
        self.report.loaded.append(&mut imports.loaded);
    }

    /// The directory that the imports of a file may not leave: the nearest with a marker, else its own.
    fn project_of(&mut self, directory: &Path) -> PathBuf {
        let known = directory.parent().and_then(|parent| self.roots.get(parent.as_os_str()));
        let here = directory.to_owned();
        let mut markers = self.settings.markers.iter();
        let is_marked = markers.any(|marker| self.files.kind(&directory.join(marker)).is_ok());
        let root = match known {
            _ if is_marked => here,
            Some(root) => root.clone(),
            None => {
                place::nearest_with(self.files, directory, &self.settings.markers).unwrap_or(here)
            }
        };
        if root != directory || is_marked {
            self.roots.insert(directory.into(), root.clone());
        }
        root
    }

    /// Reports a nested file that comes before the one above it, or one of an added directory.
    fn report_order(&mut self) {
        let mut added = None;
        let mut deepest: Option<(usize, &Path)> = None;
        let mut overruled = None;
        let mut added_first = None;
        for file in &self.report.loaded {
            match file.why {
                LoadReason::ExtraDirectory => added = added.or(Some(&file.path)),
                LoadReason::Project => {
                    added_first = added_first.or(added);
                    // All of these lie in directories above the working directory, so that of two the
                    // one with the longer path is the nested one.
                    let depth = file.path.components().count();
                    match deepest {
                        Some((nested, path)) if nested > depth => {
                            overruled = overruled.or(Some((path.to_owned(), file.path.clone())));
                        }
                        Some((nested, _)) if nested == depth => {}
                        _ => deepest = Some((depth, &file.path)),
                    }
                }
                _ => {}
            }
        }
        let added_first = added_first.cloned();
        if let Some((nested, above)) = overruled {
            let message = format!(
                "{} comes before {}, although the nested file should come last",
                nested.display(),
                above.display()
            );
            self.report.warn(diagnostics::ORDER_BY_NAME, &nested, message);
        }
        if let Some(added) = added_first {
            let message = format!("{} comes before the project's own files", added.display());
            self.report.warn(diagnostics::ADDED_DIRECTORY_SORTED, &added, message);
        }
    }

    /// Reports a configured name beside which GEMINI.md is still loaded.
    fn report_names(&mut self) {
        if !self.settings.has_further_names() {
            return;
        }
        let is_default = |file: &&Loaded| {
            file.depth == 0 && file.path.file_name().is_some_and(|it| it == settings::DEFAULT_NAME)
        };
        let mut defaults = self.report.loaded.iter().filter(is_default);
        let beside = defaults.find_map(|default| {
            let directory = default.path.parent()?;
            let mut others = self.report.loaded.iter().filter(|file| file.depth == 0);
            let other = others
                .find(|file| file.path.parent() == Some(directory) && file.path != default.path)?;
            Some((default.path.clone(), other.path.clone()))
        });
        if let Some((default, other)) = beside {
            let message = format!(
                "{} is loaded beside {}: context.fileName adds names and takes none away",
                default.display(),
                other.display()
            );
            self.report.warn(diagnostics::NAMES_ADD_UP, &default, message);
        }
    }

    /// The files that would be loaded if the folder were trusted.
    fn once_trusted(&self) -> String {
        let files = self.report.loaded.iter().filter(|file| !file.is_pasted);
        let named: Vec<String> = files.map(|file| file.path.display().to_string()).collect();
        let bytes = self.report.bytes_loaded();
        match named.as_slice() {
            [] => String::new(),
            [one] => format!("; once it is trusted, {one} is loaded, {bytes} bytes"),
            [first, more @ ..] => format!(
                "; once it is trusted, {first} and {} more are loaded, {bytes} bytes",
                more.len()
            ),
        }
    }

    fn withhold_if_refused(&mut self, session: &Session, is_trusted: bool) {
        if !is_trusted {
            let listed = trust::is_distrusted(self.files, session, &self.settings);
            let why = if listed { "is listed as not trusted" } else { "is not trusted yet" };
            let message = format!(
                "{} {why}: a headless run ends with exit code 55 before any request{}",
                session.cwd.display(),
                self.once_trusted()
            );
            // Settings are read before trust is checked, and invalid JSON ends the run there.
            self.report.clear_diagnostics_but(&diagnostics::SETTINGS_MALFORMED);
            self.report.warn(diagnostics::FOLDER_UNTRUSTED, &session.cwd, message);
            self.report.withhold(&Rule::NoRequest("the folder is not trusted"));
            return;
        }
        if let Some(why) = self.settings.refused {
            self.report.withhold(&Rule::NoRequest(why));
            return;
        }
        let texts = self.report.loaded.iter().filter(|file| !file.is_pasted);
        if size::is_too_long(texts.map(|file| &*file.text)) {
            let largest = self.report.loaded.iter().max_by_key(|file| file.bytes_loaded);
            let largest = largest.map(|file| file.path.clone()).unwrap_or_default();
            let message = format!(
                "{} bytes do not fit the model's window: Gemini CLI makes no request and still reports success",
                self.report.bytes_loaded()
            );
            self.report.warn(convoke_core::diagnostics::FILE_TOO_LARGE, &largest, message);
            self.report.withhold(&Rule::NoRequest("the files do not fit the model's window"));
        }
    }
}

/// Returns a text as it is part of the system text, in which two line breaks take the place of more.
fn in_system_text(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut breaks = 0;
    for character in text.chars() {
        breaks = if character == '\n' { breaks + 1 } else { 0 };
        if breaks <= 2 {
            kept.push(character);
        }
    }
    kept
}

#[cfg(test)]
mod tests;
