//! Locates the data that conformance tests compare with.
//!
//! Some of it is part of this repository (see `README.md` beside this crate). Recordings of other programs
//! are not: `CONVOKE_SHARED` names a directory that holds them. A suite without
//! its data prints `not run`; with `CONVOKE_REQUIRE_SHARED=1` it fails. A named directory that is missing
//! always fails.
//!
//! [`check_ledger`] and [`ledger`] check ledgers, for every crate that writes one.

#![allow(
    clippy::panic,
    clippy::print_stdout,
    clippy::expect_used,
    reason = "only tests use this crate"
)]

pub mod ledger;
mod schema;

use std::path::{Path, PathBuf};

pub use schema::check_ledger;

/// Returns the folders of a part that this repository holds: the one that `variable` names, or the
/// repository's own and those below `CONVOKE_SHARED`, of which later ones replace cases of the same name.
///
/// # Panics
///
/// Panics if a folder that is named does not exist.
pub fn own(variable: &str, folders: &[&str]) -> Vec<PathBuf> {
    if let Some(given) = named(variable) {
        return vec![given];
    }
    let own = folders.first().map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    own.into_iter().chain(below_shared(folders)).collect()
}

/// Returns the folders of recordings that this repository does not hold: the one that `variable` names, or
/// those below `CONVOKE_SHARED`. They are none if neither is set.
///
/// # Panics
///
/// Panics if a folder that is named does not exist, or if none is and `CONVOKE_REQUIRE_SHARED` is 1.
pub fn recorded(variable: &str, folders: &[&str]) -> Vec<PathBuf> {
    if let Some(given) = named(variable) {
        return vec![given];
    }
    let found = below_shared(folders);
    if found.is_empty() {
        let missing =
            format!("neither {variable} nor CONVOKE_SHARED names `{}`", folders.join("`, `"));
        assert!(!is_required(), "{missing}, and CONVOKE_REQUIRE_SHARED=1 demands it");
        println!("not run: {missing}, which is not part of this repository");
    }
    found
}

/// Returns the directory that `CONVOKE_SHARED` names.
///
/// # Panics
///
/// Panics if it is named and does not exist.
pub fn shared() -> Option<PathBuf> {
    named("CONVOKE_SHARED")
}

/// Returns the files with an extension in these folders, sorted by name. A file of a later folder replaces
/// one of the same name in an earlier folder.
///
/// # Panics
///
/// Panics if a folder cannot be read or there is no such file: a suite without cases has failed.
pub fn files(folders: &[PathBuf], extension: &str) -> Vec<PathBuf> {
    entries(folders, |path| path.extension().is_some_and(|it| it == extension))
}

/// Returns the folders in these folders that hold a file of this name, sorted by name; later ones replace
/// earlier ones as in [`files`].
///
/// # Panics
///
/// Panics if a folder cannot be read or there is no such folder.
pub fn folders_with(folders: &[PathBuf], file: &str) -> Vec<PathBuf> {
    entries(folders, |path| path.join(file).is_file())
}

fn entries(folders: &[PathBuf], is_case: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = std::collections::BTreeMap::new();
    for folder in folders {
        let listed = std::fs::read_dir(folder);
        for entry in listed.unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let entry = entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            if is_case(&entry.path()) {
                found.insert(entry.file_name(), entry.path());
            }
        }
    }
    assert!(folders.is_empty() || !found.is_empty(), "no cases in {folders:?}");
    found.into_values().collect()
}

fn below_shared(folders: &[&str]) -> Vec<PathBuf> {
    let Some(shared) = shared() else { return Vec::new() };
    let found: Vec<_> = folders.iter().map(|it| shared.join(it)).filter(|it| it.is_dir()).collect();
    assert!(!found.is_empty(), "{} holds none of `{}`", shared.display(), folders.join("`, `"));
    found
}

/// Returns the directory that a variable names. Tests run in the folder of their crate; a relative path is
/// meant from the workspace.
fn named(variable: &str) -> Option<PathBuf> {
    let given = PathBuf::from(std::env::var_os(variable).filter(|value| !value.is_empty())?);
    let from_workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(&given);
    let place = if given.is_dir() { given.clone() } else { from_workspace };
    assert!(place.is_dir(), "{variable} names {}, which is not a directory", given.display());
    Some(place)
}

fn is_required() -> bool {
    std::env::var_os("CONVOKE_REQUIRE_SHARED").is_some_and(|value| value == "1")
}
