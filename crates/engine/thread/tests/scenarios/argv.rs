//! The arguments of `codex` that affect a prompt.

use std::path::PathBuf;

use convoke_thread::config::{Overrides, parse_override};
use convoke_thread::permissions::{ApprovalPolicy, SandboxMode};

/// The arguments of a `codex exec` run.
#[derive(Default)]
pub(crate) struct Exec {
    pub(crate) overrides: Overrides,
    pub(crate) prompt: Option<String>,
    pub(crate) images: Vec<PathBuf>,
    pub(crate) output_schema: Option<PathBuf>,
    pub(crate) resume: Option<Resume>,
}

/// The session to continue.
pub(crate) enum Resume {
    /// The last one of the working directory.
    Last,
    /// The last one of any directory.
    LastOfAll,
    Id(String),
}

impl Exec {
    pub(crate) fn parse(argv: &[String]) -> Result<Self, String> {
        let mut exec = Self::default();
        let mut words: Vec<String> = Vec::new();
        let mut resumes = false;
        let (mut last, mut all) = (false, false);
        let mut rest = argv.iter().skip(1).peekable();
        let mut only_words = false;
        while let Some(argument) = rest.next() {
            if only_words || !argument.starts_with('-') || argument == "-" {
                match argument.as_str() {
                    "exec" | "e" if !only_words && words.is_empty() && !resumes => {}
                    "resume" if !only_words && words.is_empty() && !resumes => resumes = true,
                    _ => words.push(argument.clone()),
                }
                continue;
            }
            let (flag, attached) = match argument.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_owned())),
                _ => (argument.as_str(), None),
            };
            let mut value = || {
                let next = attached.clone().or_else(|| rest.next().cloned());
                next.ok_or_else(|| format!("{flag} has no value"))
            };
            match flag {
                "--" => only_words = true,
                "--last" => last = true,
                "--all" => all = true,
                "-c" | "--config" => {
                    let setting = parse_override(&value()?).map_err(|it| it.to_string())?;
                    exec.overrides.settings.push(setting);
                }
                "--enable" | "--disable" => {
                    let key = format!("features.{}", value()?);
                    let setting = (key, toml::Value::Boolean(flag == "--enable"));
                    exec.overrides.settings.push(setting);
                }
                "-m" | "--model" => exec.overrides.model = Some(value()?),
                "-p" | "--profile" => exec.overrides.profile = Some(value()?),
                "-C" | "--cd" => exec.overrides.cwd = Some(value()?.into()),
                "--add-dir" => exec.overrides.add_dirs.push(value()?.into()),
                "-s" | "--sandbox" => {
                    let mode: SandboxMode = value()?.parse().map_err(|it| format!("{it}"))?;
                    exec.overrides.sandbox_mode = Some(mode);
                }
                "--full-auto" => exec.overrides.sandbox_mode = Some(SandboxMode::WorkspaceWrite),
                "--yolo" | "--dangerously-bypass-approvals-and-sandbox" => {
                    exec.overrides.sandbox_mode = Some(SandboxMode::DangerFullAccess);
                }
                "-i" | "--image" => {
                    let mut images = vec![value()?];
                    while let Some(image) = rest.next_if(|it| !it.starts_with('-')) {
                        images.push(image.clone());
                    }
                    let images = images.iter().flat_map(|it| it.split(','));
                    exec.images.extend(images.map(PathBuf::from));
                }
                "--output-schema" => exec.output_schema = Some(value()?.into()),
                "-a"
                | "--ask-for-approval"
                | "-o"
                | "--output-last-message"
                | "--color"
                | "--local-provider" => {
                    let _ = value()?;
                }
                "--skip-git-repo-check" | "--json" | "--experimental-json" | "--ephemeral" => {}
                other => return Err(format!("the flag {other} is not known")),
            }
        }
        // `codex exec` never asks.
        exec.overrides.approval_policy = Some(ApprovalPolicy::Never);
        let mut words = words.into_iter().peekable();
        if resumes {
            let latest = if all { Resume::LastOfAll } else { Resume::Last };
            exec.resume = Some(match words.next_if(|_| !last) {
                Some(id) => Resume::Id(id),
                None => latest,
            });
        }
        exec.prompt = words.next();
        Ok(exec)
    }
}
