//! Whether Gemini CLI trusts the folder; without trust a headless run makes no request.

use std::path::{Path, PathBuf};

use convoke_files::Files;

use super::RULES;
use super::settings::Settings;
use convoke_explain::AgentReport;
use convoke_explain::Session;
use convoke_explain::config;

/// An entry of `trustedFolders.json`, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    Parent,
    Folder,
    Distrust,
}

/// Returns whether the folder is trusted.
pub(super) fn is_trusted(
    files: &dyn Files,
    session: &Session,
    settings: &Settings,
    report: &mut AgentReport,
) -> bool {
    session.variable("GEMINI_CLI_TRUST_WORKSPACE") == Some("true")
        || session.has_argument("--skip-trust")
        || !settings.folder_trust
        || listed(files, session, settings, report) == Some(true)
}

/// Looks a folder up in the list: the nearest entry decides.
fn listed(
    files: &dyn Files,
    session: &Session,
    settings: &Settings,
    report: &mut AgentReport,
) -> Option<bool> {
    let path = settings.directory.join("trustedFolders.json");
    let list = config::commented_json(files, &path, report)?;
    let entries = list.as_object()?.iter().filter_map(|(folder, level)| {
        let entry = match level.as_str()? {
            "TRUST_FOLDER" => Entry::Folder,
            "TRUST_PARENT" => Entry::Parent,
            "DO_NOT_TRUST" => Entry::Distrust,
            _ => return None,
        };
        let folder = Path::new(folder);
        let applies_to = match entry {
            Entry::Parent => folder.parent().unwrap_or(folder),
            Entry::Folder | Entry::Distrust => folder,
        };
        let real: PathBuf = files.canonicalize(applies_to).unwrap_or_else(|_| applies_to.into());
        session.cwd.starts_with(&real).then(|| (real.components().count(), entry))
    });
    let (_, nearest) = entries.max()?;
    Some(nearest != Entry::Distrust)
}

/// Returns whether a folder is listed as one not to trust, for the words of a diagnostic.
pub(super) fn is_distrusted(files: &dyn Files, session: &Session, settings: &Settings) -> bool {
    let mut unread = AgentReport::new(RULES.newest());
    listed(files, session, settings, &mut unread) == Some(false)
}

#[cfg(test)]
mod tests {
    use convoke_files::MemoryTree;

    use super::*;

    #[test]
    fn the_nearest_entry_decides() {
        let cases = [
            (r"{}", None),
            (r#"{"/a": "TRUST_FOLDER"}"#, Some(true)),
            (r#"{"/a/b/c": "TRUST_FOLDER"}"#, None),
            (r#"{"/a/b": "DO_NOT_TRUST", "/a": "TRUST_FOLDER"}"#, Some(false)),
            (r#"{"/a": "DO_NOT_TRUST", "/a/b": "TRUST_FOLDER"}"#, Some(true)),
            (r#"{"/a/b/x": "TRUST_PARENT"}"#, Some(true)),
            (r#"{"/a/b/x": "TRUST_PARENT", "/a/b": "DO_NOT_TRUST"}"#, Some(false)),
            (r#"{"/ab": "TRUST_FOLDER"}"#, None),
            (r#"{"/a": "nonsense"}"#, None),
        ];
        for (list, expected) in cases {
            let mut tree = MemoryTree::default();
            tree.create_directory("/a/b");
            tree.write("/h/.gemini/trustedFolders.json", list);
            let session = Session::new("/a/b", "/h");
            let mut report = AgentReport::new(RULES.newest());
            let settings = Settings::read(&tree, &session, &mut report);
            let found = listed(&tree, &session, &settings, &mut report);
            assert_eq!(found, expected, "{list}");
        }
    }
}
