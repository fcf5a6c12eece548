//! The permissions of commands, and their text in a request.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use convoke_core::diagnostic::Diagnostic;
use convoke_core::ledger::Source;
use convoke_core::{Fragment, SourcedText, TextWriter};

use crate::command_rules::Prefix;
use crate::diagnostics;
use crate::history::Section;
use crate::pack::PermissionTexts;
use convoke_files::{EntryKind, Files};

const OPEN: &str = "<permissions instructions>";
const CLOSE: &str = "</permissions instructions>";

/// The maximum number of listed prefixes.
const MAX_PREFIXES: usize = 100;
/// The maximum number of characters of that list.
const MAX_PREFIX_CHARS: usize = 5000;

/// The approval policy: when the user is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApprovalPolicy {
    /// Never.
    Never,
    /// Unless a command is known to be safe; `untrusted` in the configuration.
    UnlessTrusted,
    /// After a command failed in the sandbox.
    OnFailure,
    /// On the model's request.
    OnRequest,
}

/// The name of a sandbox policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SandboxMode {
    /// No restriction.
    DangerFullAccess,
    /// Read-only.
    ReadOnly,
    /// Writes to the working directory and named roots.
    WorkspaceWrite,
}

/// The sandbox policy for commands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SandboxPolicy {
    /// No restriction.
    DangerFullAccess,
    /// Read-only.
    ReadOnly,
    /// A sandbox outside Codex.
    ExternalSandbox {
        /// Whether that sandbox allows network access.
        network_access: bool,
    },
    /// Writes to the working directory and named roots.
    WorkspaceWrite(WorkspaceWrite),
}

/// The details of a sandbox that allows writing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkspaceWrite {
    /// Writable roots besides the working directory.
    pub writable_roots: Vec<PathBuf>,
    /// Whether commands may use the network.
    pub network_access: bool,
    /// Whether `TMPDIR` is excluded from the writable roots.
    pub exclude_tmpdir_env_var: bool,
    /// Whether `/tmp` is excluded from the writable roots.
    pub exclude_slash_tmp: bool,
}

/// An unknown policy or mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown value `{name}`: use {expected}")]
pub struct UnknownPolicy {
    name: String,
    expected: &'static str,
}

impl FromStr for ApprovalPolicy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        match name {
            "never" => Ok(Self::Never),
            "untrusted" | "unless-trusted" => Ok(Self::UnlessTrusted),
            "on-failure" => Ok(Self::OnFailure),
            "on-request" => Ok(Self::OnRequest),
            _ => Err(UnknownPolicy {
                name: name.to_owned(),
                expected: "untrusted, on-failure, on-request or never",
            }),
        }
    }
}

impl SandboxMode {
    /// Returns the name that users type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DangerFullAccess => "danger-full-access",
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
        }
    }
}

impl FromStr for SandboxMode {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        match name {
            "danger-full-access" => Ok(Self::DangerFullAccess),
            "read-only" => Ok(Self::ReadOnly),
            "workspace-write" => Ok(Self::WorkspaceWrite),
            _ => Err(UnknownPolicy {
                name: name.to_owned(),
                expected: "read-only, workspace-write or danger-full-access",
            }),
        }
    }
}

/// The input of the permissions text.
pub struct Permissions<'a> {
    /// The sandbox policy for commands.
    pub sandbox: &'a SandboxPolicy,
    /// The approval policy: when the user is asked.
    pub approval: ApprovalPolicy,
    /// The approved prefixes, if rules can be requested.
    pub prefixes: Option<&'a [Prefix]>,
    /// The working directory.
    pub cwd: &'a Path,
    pub tmpdir: Option<&'a Path>,
}

impl Permissions<'_> {
    /// Writes the message for the model, and reports a truncated list.
    pub fn render(
        &self,
        texts: &PermissionTexts,
        files: &dyn Files,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> SourcedText<'static> {
        let roots = self.roots_text(files);
        let approval = self.approval_text(texts, diagnostics);
        let settings = [
            (self.sandbox_text(texts), "sandbox_mode"),
            (approval, "approval_policy"),
            (roots, "sandbox_workspace_write"),
        ];
        let mut out = TextWriter::new(Section::Permissions.name());
        out.frame("wrapper", OPEN);
        for (text, setting) in settings {
            end_line(&mut out);
            if !text.is_empty() {
                out.fragment(Fragment::new(text, Source::setting(setting)));
            }
        }
        end_line(&mut out);
        out.frame("wrapper", CLOSE);
        out.finish()
    }

    fn sandbox_text(&self, texts: &PermissionTexts) -> String {
        let (template, network) = match self.sandbox {
            SandboxPolicy::DangerFullAccess => (&texts.danger_full_access, true),
            SandboxPolicy::ExternalSandbox { network_access } => {
                (&texts.danger_full_access, *network_access)
            }
            SandboxPolicy::ReadOnly => (&texts.read_only, false),
            SandboxPolicy::WorkspaceWrite(details) => {
                (&texts.workspace_write, details.network_access)
            }
        };
        let network = if network { "enabled" } else { "restricted" };
        template.trim_end().replace("{network_access}", network)
    }

    fn approval_text(&self, texts: &PermissionTexts, diagnostics: &mut Vec<Diagnostic>) -> String {
        match (self.approval, self.prefixes) {
            (ApprovalPolicy::Never, _) => texts.never.clone(),
            (ApprovalPolicy::UnlessTrusted, _) => texts.unless_trusted.clone(),
            (ApprovalPolicy::OnFailure, _) => texts.on_failure.clone(),
            (ApprovalPolicy::OnRequest, None) => texts.on_request.clone(),
            (ApprovalPolicy::OnRequest, Some(prefixes)) => {
                let list = prefix_list(prefixes, &texts.prefixes_truncated, diagnostics);
                let heading = texts.approved_prefixes.replacen("{prefixes}", &list, 1);
                format!("{}{heading}", texts.on_request_rule)
            }
        }
    }

    fn roots_text(&self, files: &dyn Files) -> String {
        let SandboxPolicy::WorkspaceWrite(details) = self.sandbox else {
            return String::new();
        };
        let slash_tmp = Path::new("/tmp");
        let mut roots: Vec<&Path> = details.writable_roots.iter().map(PathBuf::as_path).collect();
        roots.push(self.cwd);
        let tmp_exists = || files.kind(slash_tmp).is_ok_and(|it| it == EntryKind::Directory);
        if !details.exclude_slash_tmp && tmp_exists() {
            roots.push(slash_tmp);
        }
        if let Some(tmpdir) = self.tmpdir
            && !details.exclude_tmpdir_env_var
            && !tmpdir.as_os_str().is_empty()
        {
            roots.push(tmpdir);
        }
        let roots: Vec<_> = roots.iter().map(|it| format!("`{}`", it.display())).collect();
        match &roots[..] {
            [root] => format!(" The writable root is {root}."),
            roots => format!(" The writable roots are {}.", roots.join(", ")),
        }
    }
}

/// Starts a new line, unless the text is at the start of one.
fn end_line(out: &mut TextWriter<'_>) {
    if !out.text().ends_with('\n') {
        out.frame("wrapper", "\n");
    }
}

fn prefix_list(prefixes: &[Prefix], mark: &str, diagnostics: &mut Vec<Diagnostic>) -> String {
    let mut sorted: Vec<_> = prefixes.iter().collect();
    let bytes = |prefix: &Prefix| prefix.iter().map(String::len).sum::<usize>();
    sorted.sort_by(|a, b| (a.len(), bytes(a), a).cmp(&(b.len(), bytes(b), b)));
    sorted.dedup();
    let lines = sorted.iter().take(MAX_PREFIXES).map(|prefix| line(prefix));
    let mut list = lines.collect::<Vec<_>>().join("\n");
    let cut = list.char_indices().nth(MAX_PREFIX_CHARS).map(|(at, _)| at);
    if let Some(at) = cut {
        list.truncate(at);
    }
    let count = sorted.len();
    if cut.is_some() || count > MAX_PREFIXES {
        let message = format!(
            "the list of {count} approved prefixes is cut: at most {MAX_PREFIXES} prefixes and \
             {MAX_PREFIX_CHARS} characters are listed"
        );
        let truncated = Diagnostic::new(diagnostics::RULES_TRUNCATED, message);
        diagnostics.push(truncated.with_count(count as u64));
        list.push_str(mark);
    }
    list
}

fn line(prefix: &Prefix) -> String {
    let words = prefix.iter().map(|word| serde_json::Value::from(word.as_str()).to_string());
    format!("- [{}]", words.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests;
