//! The user's own document, which comes before those of the project.

use std::io;
use std::path::Path;

use convoke_core::diagnostic::Diagnostic;

use super::{DEFAULT, Document, IgnoreReason, Ignored, OVERRIDE, Rules};
use crate::diagnostics;
use convoke_files::{EntryKind, FileKind, Files};

/// The user's own document in the Codex home directory.
#[derive(Debug, Clone, Default)]
pub struct UserDoc {
    /// The document that is sent, trimmed.
    pub document: Option<Document>,
    /// The files that are not sent.
    pub ignored: Vec<Ignored>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads the user's own document: the override or the default file, whichever is first readable and not blank.
pub fn user_doc(files: &dyn Files, codex_home: &Path, rules: Rules) -> UserDoc {
    let mut found = UserDoc::default();
    for name in [OVERRIDE, DEFAULT] {
        let path = codex_home.join(name);
        if let Some(document) = &found.document {
            if files.kind(&path).is_ok_and(|kind| kind == EntryKind::File) {
                let by = document.path.clone();
                let reason = IgnoreReason::Shadowed { by };
                found.ignored.push(Ignored { path, reason });
            }
            continue;
        }
        let reason = match read_user_doc(files, &path, rules) {
            Ok(document) => {
                found.document = Some(document);
                continue;
            }
            Err(None) => continue,
            Err(Some(reason)) => reason,
        };
        if !matches!(reason, IgnoreReason::Blank) {
            let message = format!("{} is not sent: {}", path.display(), reason);
            let lost = Diagnostic::new(diagnostics::AGENTS_MD_UNREADABLE, message);
            found.diagnostics.push(lost.at_path(path.display().to_string()));
        }
        found.ignored.push(Ignored { path, reason });
    }
    found
}

fn read_user_doc(
    files: &dyn Files,
    path: &Path,
    rules: Rules,
) -> Result<Document, Option<IgnoreReason>> {
    let bytes = match files.read(path, FileKind::Instructions) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(None),
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            return Err(Some(IgnoreReason::Directory));
        }
        Err(error) => {
            let error = error.to_string();
            return Err(Some(IgnoreReason::Unreadable { error }));
        }
    };
    let size = bytes.len() as u64;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(invalid) if rules == Rules::V0_166 => {
            String::from_utf8_lossy(invalid.as_bytes()).into_owned()
        }
        Err(_) => return Err(Some(IgnoreReason::NotUtf8)),
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(Some(IgnoreReason::Blank));
    }
    Ok(Document { path: path.to_owned(), text: text.to_owned(), size, loaded: size })
}
