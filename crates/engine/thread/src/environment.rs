//! The environment in a request: the working directory and the shell.

use std::path::{Path, PathBuf};

use convoke_core::ledger::Source;
use convoke_core::{Fragment, SourcedText, TextWriter};
use convoke_files::{EntryKind, Files};

use crate::history::Section;

/// The environment of a turn.
#[derive(Debug, Clone, Copy)]
pub struct EnvironmentContext<'a> {
    /// The working directory.
    pub cwd: &'a Path,
    /// The user's shell.
    pub shell: &'a str,
}

impl EnvironmentContext<'_> {
    /// Writes the message to the model. Nothing is escaped, as in Codex.
    pub fn render(&self) -> SourcedText<'static> {
        let mut out = TextWriter::new(Section::Environment.name());
        out.frame("wrapper", "<environment_context>\n  <cwd>");
        let cwd = self.cwd.display().to_string();
        out.fragment(Fragment::new(cwd, Source::setting("cwd")));
        out.frame("wrapper", "</cwd>\n  <shell>");
        out.fragment(Fragment::new(self.shell.to_owned(), Source::setting("shell")));
        out.frame("wrapper", "</shell>\n</environment_context>");
        out.finish()
    }
}

/// Finds the path of a user's shell in the text of a password file.
pub fn login_shell(passwd: &str, uid: u32) -> Option<&Path> {
    let uid = uid.to_string();
    let shell = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_user = fields.nth(2) == Some(&*uid);
        is_user.then(|| fields.nth(3)).flatten()
    });
    shell.filter(|shell| !shell.is_empty()).map(Path::new)
}

/// Returns the name of the user's shell from the path in the password file.
///
/// If the shell is missing or unknown to Codex, returns the first of bash, zsh and sh that is installed in the
/// directories of `search_path`.
pub fn shell_name(
    files: &dyn Files,
    login_shell: Option<&Path>,
    search_path: &[PathBuf],
) -> &'static str {
    let is_file = |path: &Path| files.kind(path).is_ok_and(|it| it == EntryKind::File);
    let installed = |name: &str| search_path.iter().any(|it| is_file(&it.join(name)));
    let login = login_shell.and_then(|path| Some((path, known_shell(path)?)));
    if let Some((path, (name, binary))) = login
        && (is_file(path) || installed(binary))
    {
        return name;
    }
    let fallbacks = ["bash", "zsh", "sh"];
    let fallback = fallbacks.into_iter().find(|name| installed(name));
    fallback.unwrap_or("sh")
}

/// Returns the name of a known shell, and of its program.
fn known_shell(path: &Path) -> Option<(&'static str, &'static str)> {
    match path.file_stem()?.to_str()? {
        "zsh" => Some(("zsh", "zsh")),
        "bash" => Some(("bash", "bash")),
        "sh" => Some(("sh", "sh")),
        "pwsh" => Some(("powershell", "pwsh")),
        "powershell" => Some(("powershell", "powershell")),
        "cmd" => Some(("cmd", "cmd")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoke_files::MemoryTree;

    #[test]
    fn the_login_shell_is_found_by_the_users_number() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/zsh\nno:x:7:7::/:\n";
        assert_eq!(login_shell(passwd, 0), Some(Path::new("/bin/sh")));
        assert_eq!(login_shell(passwd, 1000), Some(Path::new("/bin/zsh")));
        assert_eq!(login_shell(passwd, 7), None);
        assert_eq!(login_shell(passwd, 8), None);
    }

    #[test]
    fn the_shell_is_the_login_shell_when_it_is_there_and_known() {
        let mut tree = MemoryTree::default();
        for path in ["/bin/bash", "/bin/sh", "/opt/zsh", "/opt/pwsh", "/opt/fish"] {
            tree.write(path, "");
        }
        let cases = [
            (Some("/bin/sh"), "sh"),
            (Some("/opt/zsh"), "zsh"),
            (Some("/opt/pwsh"), "powershell"),
            (Some("/nope/zsh"), "bash"),
            (Some("/nope/sh"), "sh"),
            (Some("/opt/fish"), "bash"),
            (None, "bash"),
        ];
        for (login, expected) in cases {
            let name = shell_name(&tree, login.map(Path::new), &["/bin".into()]);
            assert_eq!(name, expected, "{login:?}");
        }
    }
}
