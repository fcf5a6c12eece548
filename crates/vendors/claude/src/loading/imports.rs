//! Follows `@path`: depth first, each file once, from below the working directory unless approved.

use std::path::{Path, PathBuf};

use convoke_core::diagnostic::{Code, Diagnostic};
use convoke_files::{EntryKind, absolute};

use super::loader::{Level, Loader};
use super::markdown::Import;
use convoke_explain::diagnostics;
use convoke_explain::{LoadReason, Rule};

/// The maximum number of imports that may lead to a file.
const MAX_HOPS: usize = 4;

/// Punctuation that often ends up in a path.
const PUNCTUATION: [char; 10] = ['.', ',', ';', ':', '!', '?', ')', ']', '"', '\''];

/// The file whose imports are followed.
pub(super) struct Importing {
    pub path: PathBuf,
    /// Its real directory, to which its imports are relative.
    pub directory: Option<PathBuf>,
    pub level: Level,
    pub depth: usize,
}

impl Importing {
    fn resolve(&self, loader: &Loader<'_>, written: &str) -> PathBuf {
        if let Some(below_home) = written.strip_prefix("~/") {
            return absolute(&loader.session.home, Path::new(below_home));
        }
        let directory = self.directory.as_deref().unwrap_or(Path::new("/"));
        absolute(directory, Path::new(written))
    }
}

/// Loads the imports of a file that has just been loaded.
pub(super) fn follow(loader: &mut Loader<'_>, importing: &Importing, imports: &[Import]) {
    for import in imports {
        let path = importing.resolve(loader, &import.path);
        match loader.files.kind(&path) {
            Ok(EntryKind::File) => follow_one(loader, importing, import, &path),
            Ok(EntryKind::Directory | EntryKind::Symlink | EntryKind::Special) => {
                let message = format!("@{} is not a file", import.path);
                warn(loader, diagnostics::IMPORT_NOT_TAKEN, importing, import.line, message);
            }
            Err(_) => report_missing(loader, importing, import),
        }
    }
}

fn follow_one(loader: &mut Loader<'_>, importing: &Importing, import: &Import, path: &Path) {
    if loader.is_seen(path) {
        return;
    }
    let by = importing.path.clone();
    let line = import.line;
    let cwd = &loader.session.cwd;
    let settings = &loader.settings;
    let is_approved = settings.outside_approved && !settings.blocks_outside;
    let may_leave = importing.level == Level::User || is_approved;
    let leaves_by_link = || {
        let real = loader.files.canonicalize(path);
        settings.resolves_links && real.is_ok_and(|real| !real.starts_with(cwd))
    };
    if !may_leave && (!path.starts_with(cwd) || leaves_by_link()) {
        let message = format!(
            "@{} is dropped without a message: it is outside {}",
            import.path,
            cwd.display()
        );
        let allowed = cwd.clone();
        loader.report.ignore(path, Rule::OutsideImport { by, allowed });
        warn(loader, diagnostics::IMPORT_OUTSIDE, importing, line, message);
    } else if importing.depth >= MAX_HOPS {
        let message = format!("@{} is more than {MAX_HOPS} imports deep", import.path);
        loader.report.ignore(path, Rule::ImportTooDeep(by));
        warn(loader, diagnostics::IMPORT_NOT_TAKEN, importing, line, message);
    } else if !is_text(path) {
        let message = format!("@{} is not of a kind that is taken as text", import.path);
        loader.report.ignore(path, Rule::ImportType(by));
        warn(loader, diagnostics::IMPORT_NOT_TAKEN, importing, line, message);
    } else {
        let why = LoadReason::Import { by, line };
        loader.load_at(path, why, importing.level, importing.depth + 1);
    }
}

/// Reports a missing import, unless it looks like a name such as `@alice`.
fn report_missing(loader: &mut Loader<'_>, importing: &Importing, import: &Import) {
    let bare = import.path.trim_end_matches(PUNCTUATION);
    let path = importing.resolve(loader, bare);
    if bare.len() < import.path.len()
        && loader.files.kind(&path).is_ok_and(|it| it == EntryKind::File)
    {
        let by = importing.path.clone();
        let message = format!(
            "@{} is not imported: `{}` counts as part of the path",
            import.path,
            &import.path[bare.len()..]
        );
        if !loader.is_seen(&path) {
            loader.report.ignore(&path, Rule::ImportForm(by));
        }
        warn(loader, diagnostics::IMPORT_NOT_TAKEN, importing, import.line, message);
    } else if bare.contains('/') && !bare.ends_with('/') || has_text_extension(Path::new(bare)) {
        let message = format!("@{} leads to no file", import.path);
        warn(loader, diagnostics::IMPORT_MISSING, importing, import.line, message);
    }
}

/// Reports existing files that are mentioned in a form that is not an import.
pub(super) fn report_near_misses(
    loader: &mut Loader<'_>,
    importing: &Importing,
    misses: &[Import],
) {
    for miss in misses {
        let bare = miss.path.trim_end_matches(PUNCTUATION);
        let path = importing.resolve(loader, bare);
        if bare.is_empty() || !loader.files.kind(&path).is_ok_and(|kind| kind == EntryKind::File) {
            continue;
        }
        let message = format!("@{bare} is not imported: white space must precede the @");
        if !loader.is_seen(&path) {
            let by = importing.path.clone();
            loader.report.ignore(&path, Rule::ImportForm(by));
        }
        warn(loader, diagnostics::IMPORT_NOT_TAKEN, importing, miss.line, message);
    }
}

fn warn(loader: &mut Loader<'_>, code: Code, importing: &Importing, line: u64, message: String) {
    let path = importing.path.to_string_lossy();
    let diagnostic = Diagnostic::new(code, message).at_path(path).at_line(line);
    loader.report.diagnose(diagnostic);
}

/// Returns whether a file may be imported: no extension, or one that is known for text.
fn is_text(path: &Path) -> bool {
    path.extension().is_none() || has_text_extension(path)
}

fn has_text_extension(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let extension = extension.map(str::to_ascii_lowercase);
    extension.is_some_and(|extension| TEXT_EXTENSIONS.contains(&extension.as_str()))
}

/// The extensions that Claude Code imports; Markdown variants such as mdx and mdc are not among them.
const TEXT_EXTENSIONS: &[&str] = &[
    "adoc",
    "asciidoc",
    "astro",
    "bash",
    "bat",
    "c",
    "cc",
    "cfg",
    "cjs",
    "clj",
    "cljc",
    "cljs",
    "cmake",
    "cmd",
    "conf",
    "config",
    "cpp",
    "cs",
    "css",
    "csv",
    "cts",
    "cxx",
    "dart",
    "diff",
    "edn",
    "ejs",
    "elm",
    "env",
    "erb",
    "erl",
    "ex",
    "exs",
    "f",
    "f90",
    "f95",
    "fish",
    "for",
    "go",
    "gql",
    "gradle",
    "graphql",
    "h",
    "hbs",
    "hpp",
    "hrl",
    "hs",
    "htm",
    "html",
    "hxx",
    "ini",
    "jade",
    "java",
    "js",
    "json",
    "jsx",
    "kt",
    "kts",
    "latex",
    "less",
    "lhs",
    "lock",
    "log",
    "lua",
    "make",
    "makefile",
    "md",
    "mjs",
    "ml",
    "mli",
    "mts",
    "org",
    "patch",
    "php",
    "pl",
    "pm",
    "properties",
    "proto",
    "ps1",
    "pug",
    "py",
    "pyi",
    "pyw",
    "r",
    "rake",
    "rb",
    "rs",
    "rst",
    "sass",
    "sbt",
    "scala",
    "scss",
    "sh",
    "sql",
    "svelte",
    "swift",
    "tex",
    "text",
    "toml",
    "ts",
    "tsx",
    "txt",
    "vue",
    "xml",
    "yaml",
    "yml",
    "zsh",
];
