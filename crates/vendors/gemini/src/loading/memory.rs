//! Gemini CLI's notes on a project, in a directory with a short name.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use convoke_files::{FileKind, Files};
use serde_json::Value;

const OWNER: &str = ".project_root";

/// Returns the directory of a project's notes.
pub(super) fn directory(files: &dyn Files, gemini: &Path, project: &Path) -> PathBuf {
    let registered = registered(files, gemini);
    let taken: HashSet<&str> = registered.iter().map(|(_, name)| name.as_str()).collect();
    let known = registered
        .iter()
        .find(|(path, name)| Path::new(path) == project && is_ours(files, gemini, name, project));
    let name = match known {
        Some((_, name)) => name.clone(),
        None => owned(files, gemini, project)
            .unwrap_or_else(|| unclaimed(files, gemini, project, &taken)),
    };
    gemini.join("tmp").join(name).join("memory")
}

fn registered(files: &dyn Files, gemini: &Path) -> Vec<(String, String)> {
    let read = files.read(&gemini.join("projects.json"), FileKind::State);
    let value = read.ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let projects = value.as_ref().and_then(|value| value.get("projects")?.as_object());
    let names = projects.into_iter().flatten();
    names.filter_map(|(path, name)| Some((path.clone(), name.as_str()?.to_owned()))).collect()
}

/// The places where a name may be marked with the project that owns it.
fn marks(gemini: &Path, name: &str) -> [PathBuf; 2] {
    ["tmp", "history"].map(|base| gemini.join(base).join(name).join(OWNER))
}

fn is_ours(files: &dyn Files, gemini: &Path, name: &str, project: &Path) -> bool {
    let owners = marks(gemini, name).map(|mark| owner(files, &mark));
    owners.into_iter().flatten().all(|owner| owner == project)
}

fn owner(files: &dyn Files, mark: &Path) -> Option<PathBuf> {
    let text = files.read(mark, FileKind::Pointer).ok()?;
    Some(PathBuf::from(String::from_utf8_lossy(&text).trim()))
}

/// A name that is marked as this project's though the list does not say so.
fn owned(files: &dyn Files, gemini: &Path, project: &Path) -> Option<String> {
    let mut names = ["tmp", "history"].into_iter().flat_map(|base| {
        let base = gemini.join(base);
        let names = files.names(&base).unwrap_or_default();
        names.into_iter().map(move |name| (base.clone(), name))
    });
    names.find_map(|(base, name)| {
        let mark = base.join(&name).join(OWNER);
        let is_ours = owner(files, &mark).is_some_and(|owner| owner == project);
        is_ours.then(|| name.to_string_lossy().into_owned())
    })
}

/// The name that the project would be given now.
fn unclaimed(files: &dyn Files, gemini: &Path, project: &Path, taken: &HashSet<&str>) -> String {
    let base = slug(project);
    let numbered = (1..=taken.len() + 1000).map(|number| format!("{base}-{number}"));
    let mut names = std::iter::once(base.clone()).chain(numbered);
    let free =
        |name: &String| !taken.contains(name.as_str()) && is_ours(files, gemini, name, project);
    names.find(free).unwrap_or(base)
}

fn slug(project: &Path) -> String {
    let name = project.file_name().map(|name| name.to_string_lossy().to_lowercase());
    let mut slug = String::new();
    for character in name.unwrap_or_default().chars() {
        match character {
            'a'..='z' | '0'..='9' => slug.push(character),
            _ if slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    match slug.trim_matches('-') {
        "" => "project".to_owned(),
        slug => slug.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use convoke_files::MemoryTree;

    use super::*;

    #[test]
    fn a_project_is_known_by_its_entry_its_mark_or_its_name() {
        let mut tree = MemoryTree::default();
        let directory = |tree: &MemoryTree| directory(tree, "/g".as_ref(), "/w/My Repo!".as_ref());
        assert_eq!(directory(&tree), Path::new("/g/tmp/my-repo/memory"));

        tree.write("/g/tmp/my-repo/.project_root", "/other/my-repo");
        assert_eq!(directory(&tree), Path::new("/g/tmp/my-repo-1/memory"));

        tree.write("/g/tmp/odd/.project_root", "/w/My Repo!\n");
        assert_eq!(directory(&tree), Path::new("/g/tmp/odd/memory"));

        tree.write("/g/projects.json", r#"{"projects": {"/w/My Repo!": "listed"}}"#);
        assert_eq!(directory(&tree), Path::new("/g/tmp/listed/memory"));
    }

    #[test]
    fn a_name_is_made_of_letters_digits_and_single_dashes() {
        let cases =
            [("/a/Repo", "repo"), ("/a/.x__y.", "x-y"), ("/", "project"), ("/a/世界", "project")];
        for (path, expected) in cases {
            assert_eq!(slug(path.as_ref()), expected, "{path}");
        }
    }
}
