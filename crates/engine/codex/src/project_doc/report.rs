//! Diagnostics of documents that are cut or lost.

use std::path::Path;

use convoke_core::diagnostic::Diagnostic;

use super::{Failure, Settings};
use crate::diagnostics;

pub(super) fn cut(path: &Path, loaded: u64, size: u64, settings: &Settings<'_>) -> Diagnostic {
    let lost = size - loaded;
    let message = format!(
        "{} is cut after {loaded} of {size} bytes: {} is {} for all files together",
        path.display(),
        limit_name(settings),
        settings.budget()
    );
    Diagnostic::new(diagnostics::AGENTS_MD_TRUNCATED, message)
        .with_bytes(lost)
        .at_path(path.display().to_string())
}

pub(super) fn over_budget(path: &Path, size: u64, settings: &Settings<'_>) -> Diagnostic {
    let message = format!(
        "{} is not sent: files nearer to the root used up {} ({})",
        path.display(),
        limit_name(settings),
        settings.budget()
    );
    Diagnostic::new(diagnostics::AGENTS_MD_TRUNCATED, message)
        .with_bytes(size)
        .at_path(path.display().to_string())
}

fn limit_name(settings: &Settings<'_>) -> &'static str {
    if settings.budget() < settings.max_bytes {
        "the limit of what is read"
    } else {
        "project_doc_max_bytes"
    }
}

pub(super) fn replaced(path: &Path) -> Diagnostic {
    let message = format!("bytes of {} that are not UTF-8 are sent as U+FFFD", path.display());
    Diagnostic::new(diagnostics::AGENTS_MD_NOT_UTF8, message).at_path(path.display().to_string())
}

pub(super) fn dangling(path: &Path) -> Diagnostic {
    let message = format!("{} is left out: the link leads nowhere", path.display());
    Diagnostic::new(convoke_core::diagnostics::FILE_UNREADABLE, message)
        .at_path(path.display().to_string())
}

pub(super) fn lost(failed: &Failure, files: usize) -> Diagnostic {
    let message = format!(
        "no project document is sent, because {} could not be read: {}",
        failed.path.display(),
        failed.error
    );
    Diagnostic::new(diagnostics::AGENTS_MD_UNREADABLE, message)
        .with_count(files as u64)
        .at_path(failed.path.display().to_string())
}

pub(super) fn untrusted(cwd: &Path) -> Diagnostic {
    let message = format!("{} is not trusted, so its documents are not sent", cwd.display());
    Diagnostic::new(diagnostics::AGENTS_MD_UNTRUSTED, message).at_path(cwd.display().to_string())
}
