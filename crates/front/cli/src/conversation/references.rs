//! Checks the references of a team file: agents of the user's configuration, and files beside it.

use std::io::ErrorKind;
use std::path::Path;

use convoke_agent::config::{AgentKind, Catalog, Definition, Unused};
use convoke_agent::sandbox::Secrets;
use convoke_files::{FileKind, OpenedFile, TooLarge};
use convoke_model::Endpoint;
use convoke_team::{
    AgentSettings, BadReference, Baseline, FileLocation, References, diagnostics, gate,
};
use convoke_thread::config::Wire;

use super::project::{Origin, how_to_trust};
use super::trust::DirectoryTrust;

/// The targets of a team file's references.
pub(super) struct ProjectReferences<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) secrets: &'a Secrets,
    pub(super) directory: &'a Path,
    pub(super) trust: DirectoryTrust,
    pub(super) origin: Origin,
}

impl References for ProjectReferences<'_> {
    fn agents(&self) -> Vec<&str> {
        self.catalog.iter().map(|(name, _)| name).collect()
    }

    fn check(&self, settings: &AgentSettings, setting: &str) -> Result<(), BadReference> {
        if let Some(Unused { problem, fix }) =
            self.definition(settings).and_then(|agent| agent.unused(setting))
        {
            return Err(BadReference { code: diagnostics::TEAM_UNUSED_SETTING, problem, fix });
        }
        match setting {
            "instructions-file" => self.check_instructions(settings),
            "command" => self.check_command(settings),
            "cwd" => self.check_directory(settings),
            "base-url" => check_address(settings),
            _ => Ok(()),
        }
    }

    fn missing(&self, settings: &AgentSettings) -> Vec<(&'static str, BadReference)> {
        let Some(agent) = self.definition(settings) else { return Vec::new() };
        let missing = |setting: &'static str, why: &str, example: &str| {
            let bad = BadReference {
                code: diagnostics::TEAM_MISSING_SETTING,
                problem: format!("is missing: {why}"),
                fix: format!("add a line such as `{setting} = \"{example}\"`"),
            };
            (setting, bad)
        };
        let mut all = Vec::new();
        if agent.needs_command() && settings.command.is_none() {
            all.push(match agent.kind {
                AgentKind::Acp => missing("command", "an acp agent needs a program", "opencode"),
                _ => missing("command", "a plain agent needs a program", "/usr/local/bin/review"),
            });
        }
        if agent.kind == AgentKind::Api {
            if settings.base_url.is_none() && agent.api.base_url.is_none() {
                let why = "an api agent needs the address of its model";
                all.push(missing("base-url", why, "http://127.0.0.1:8080/v1"));
            }
            if settings.model.is_none() && agent.model.is_none() {
                all.push(missing("model", "an api agent needs the name of its model", "smollm2"));
            }
        }
        all
    }
}

impl ProjectReferences<'_> {
    fn definition(&self, settings: &AgentSettings) -> Option<&Definition> {
        self.catalog.get(&settings.agent)
    }

    fn check_instructions(&self, settings: &AgentSettings) -> Result<(), BadReference> {
        let Some(file) = &settings.instructions_file else { return Ok(()) };
        let trust = (self.trust, self.origin);
        read_instructions(self.directory, file, trust, self.secrets).map(drop)
    }

    /// Rejects a command line or a directory instead of a program.
    fn check_command(&self, settings: &AgentSettings) -> Result<(), BadReference> {
        let Some(command) = &settings.command else { return Ok(()) };
        let path = self.directory.join(command);
        if command.contains('/') && path.is_dir() {
            return Err(BadReference {
                code: diagnostics::TEAM_BAD_FILE,
                problem: format!("names a directory, not a program: {command}"),
                fix: "name the program in the directory".to_owned(),
            });
        }
        if !command.contains(char::is_whitespace) || (command.contains('/') && path.exists()) {
            return Ok(());
        }
        let mut words = command.split_whitespace();
        let program = words.next().unwrap_or("claude");
        let arguments: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
        Err(BadReference {
            code: diagnostics::TEAM_INVALID_VALUE,
            problem: "must be a program without arguments".to_owned(),
            fix: match &arguments[..] {
                [] => format!("write `command = \"{program}\"`, without white space"),
                _ => format!(
                    "write `command = \"{program}\"` and `args = [{}]`",
                    arguments.join(", ")
                ),
            },
        })
    }

    fn check_directory(&self, settings: &AgentSettings) -> Result<(), BadReference> {
        let Some(cwd) = &settings.cwd else { return Ok(()) };
        let path = self.directory.join(cwd);
        if path.is_dir() {
            return Ok(());
        }
        let problem = if path.exists() {
            format!("names a file, not a directory: {cwd}")
        } else {
            format!("names a directory that does not exist: {cwd}")
        };
        Err(BadReference {
            code: diagnostics::TEAM_BAD_FILE,
            problem,
            fix: "create the directory, or correct the path; it is relative to the team file"
                .to_owned(),
        })
    }
}

fn check_address(settings: &AgentSettings) -> Result<(), BadReference> {
    let Some(address) = &settings.base_url else { return Ok(()) };
    match Endpoint::new(address, Wire::Chat) {
        Ok(_) => Ok(()),
        Err(error) => Err(BadReference {
            code: diagnostics::TEAM_INVALID_VALUE,
            problem: format!("cannot be used: {error}"),
            fix: "write an address such as `base-url = \"http://127.0.0.1:8080/v1\"`".to_owned(),
        }),
    }
}

/// Returns the real path of a file. A missing file counts as outside.
pub(super) fn locate(directory: &Path, file: &str) -> FileLocation {
    match directory.join(file).canonicalize() {
        Ok(path) => location(directory, &path),
        Err(_) => FileLocation::Outside,
    }
}

fn location(directory: &Path, real: &Path) -> FileLocation {
    if real.starts_with(directory) { FileLocation::Inside } else { FileLocation::Outside }
}

/// Reads an instructions file. It must be inside the directory until that is trusted, and never a secret of the user.
pub(super) fn read_instructions(
    directory: &Path,
    file: &str,
    (trust, origin): (DirectoryTrust, Origin),
    secrets: &Secrets,
) -> Result<String, BadReference> {
    let refuse = |problem: String, fix: &str| BadReference {
        code: diagnostics::TEAM_BAD_FILE,
        problem,
        fix: fix.to_owned(),
    };
    let unreadable = |error: std::io::Error| {
        let fix = match (TooLarge::from_error(&error), error.kind()) {
            (Some(_), _) => "use a smaller file",
            (None, ErrorKind::IsADirectory) => "name a file in the directory",
            (None, _) if file.starts_with('~') => {
                "write the full path: `~` is not expanded, and paths are relative to the team file"
            }
            (None, _) => "create the file, or correct the path; it is relative to the team file",
        };
        refuse(format!("`{file}` cannot be read: {error}"), fix)
    };
    // Opened before it is checked: an agent that works now may put a link on the path.
    let opened = OpenedFile::open(&directory.join(file)).map_err(unreadable)?;
    let path = opened.real_path().map_err(unreadable)?;
    let asked =
        AgentSettings { instructions_file: Some(file.to_owned()), ..AgentSettings::default() };
    let baseline = Baseline { instructions: location(directory, &path), ..Baseline::default() };
    if !gate(&asked, baseline, trust.into()).refused.is_empty() {
        let how = how_to_trust(directory, trust, origin);
        return Err(BadReference {
            code: diagnostics::TEAM_NEEDS_TRUST,
            problem: format!("`{file}` is outside the project and needs trust: {how}"),
            fix: "trust the directory, or move the file below the team file".to_owned(),
        });
    }
    if secrets.contain(&path, directory) {
        let problem = format!("`{file}` is one of your secrets, which agents never receive");
        return Err(refuse(
            problem,
            "name another file; `convoke docs permissions` lists your secrets",
        ));
    }
    let bytes = opened.read(&path, FileKind::Instructions).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        refuse(format!("`{file}` is not UTF-8 at byte {at}"), "save the file as UTF-8")
    })
}
