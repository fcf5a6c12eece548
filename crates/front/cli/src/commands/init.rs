//! `convoke init`: writes a team file for a directory.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use convoke_agent::Cli;
use convoke_files::draft;
use convoke_inspect::HostEnvironment;
use serde_json::json;

use crate::conversation::project::{self, TEAM_FILE};
use crate::host_environment;
use crate::outcome::{AfterWork as _, Outcome, UsageError};
use crate::program;
use crate::terminal::{Paint, stdout};

/// Write a team file for this directory.
///
/// The file names the installed agents. An existing team file is never overwritten.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// A member that init proposes.
struct Role {
    name: &'static str,
    summary: &'static str,
    instructions: &'static str,
}

const ROLES: [Role; 3] = [
    Role {
        name: "lead",
        summary: "Lead plans the work, asks the others, and decides.",
        instructions: "Ask reviewer before you decide. Answer in a few sentences.",
    },
    Role {
        name: "reviewer",
        summary: "Reviewer finds errors and proves them.",
        instructions: "Cite file and line for every finding.",
    },
    Role {
        name: "tester",
        summary: "Tester runs the tests and finds what they do not cover.",
        instructions: "Name the test that would have failed.",
    },
];

/// Runs `convoke init`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    let installed: Vec<&dyn Cli> = convoke_vendors::programs()
        .clis
        .iter()
        .copied()
        .filter(|vendor| !host_environment.programs(vendor.facts().command).is_empty())
        .collect();
    // No session could be stored for this directory.
    project::as_text(&host_environment.cwd)?;
    let path = host_environment.cwd.join(TEAM_FILE);
    let text = team_file(&installed, &person(&host_environment), &host_environment.cwd);
    match draft::write_new(&path, text.as_bytes(), 0o666) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(UsageError(format!(
                "{} already exists and was not changed",
                path.display()
            ))
            .into());
        }
        Err(error) => return Err(error).context(format!("cannot write {}", path.display())),
    }
    let mut out = stdout();
    let agents: Vec<&str> = installed.iter().map(|vendor| vendor.facts().command).collect();
    if arguments.json {
        let written = json!({"path": path, "installed": agents});
        writeln!(out, "{written}").after(format!("{} is written", path.display()))?;
        return Ok(Outcome::Done);
    }
    let paint = Paint::for_stream(&out);
    writeln!(out, "wrote {}", path.display()).after(format!("{} is written", path.display()))?;
    let installed = match &agents[..] {
        [] => {
            "None of claude, codex and gemini is installed; use --rehearse until one is.".to_owned()
        }
        agents => format!("installed: {}", agents.join(", ")),
    };
    writeln!(out, "{installed}")?;
    let program = program::name();
    writeln!(out)?;
    let mut advice = |what: &str, command: &str| {
        let command = paint.strong(&format!("{program} {command}"));
        writeln!(out, "{} {command}", paint.faint(&format!("{what:<33}")))
    };
    advice("try it without an account", "run --rehearse \"Say hello\"")?;
    advice("show the prompt of lead", "prompt --for lead")?;
    advice("check that agents are signed in", "doctor")?;
    advice("start a conversation", "run \"Review this project\"")?;
    Ok(Outcome::Done)
}

/// Returns a name for the person: the user's own, if it is valid in a team file.
fn person(host_environment: &HostEnvironment) -> String {
    let user = host_environment.variable("USER").and_then(|name| name.to_str()).unwrap_or_default();
    let is_plain = user.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let is_taken = ["all", "root"].contains(&user) || ROLES.iter().any(|role| role.name == user);
    if user.is_empty() || !is_plain || is_taken { "you".to_owned() } else { user.to_owned() }
}

fn team_file(installed: &[&'static dyn Cli], person: &str, directory: &Path) -> String {
    let known = convoke_vendors::programs().clis;
    let agents = if installed.is_empty() { &known[..known.len().min(1)] } else { installed };
    let name = directory.file_name().map_or_else(|| "team".into(), |name| name.to_string_lossy());
    let mut text = format!(
        "\
# The team of this directory. `convoke run \"…\"` starts a conversation, `convoke prompt --for NAME` shows the
# prompt of a member, and `convoke docs team-file` describes every setting.
name = {}
# The task of the team; every member reads it in every prompt.
# task = \"Review the authentication module\"

[context]
window = 5                # how many earlier messages a member sees
max-bytes = \"768 KiB\"     # of the prompt of one turn
# visibility = \"addressed\" # a member sees only its own messages and those addressed to it

[limits]
turns = 20                # then the conversation stops and waits for a person
turn-timeout = \"30m\"
# parallel = true         # members addressed by one message run at the same time

# You.
[[member]]
name = \"{person}\"
human = true
",
        toml::Value::from(&*name)
    );
    for (index, role) in ROLES.iter().take(agents.len().max(2)).enumerate() {
        let agent = agents[index % agents.len()];
        let Role { name, summary, instructions } = role;
        let remark = match (index, installed.is_empty()) {
            (_, true) => {
                "# Not installed here: rehearse, or choose another agent (codex, gemini).\n"
            }
            (0, false) => {
                "# Members address each other with a last line such as [NEXT: reviewer]; their prompts explain this.\n"
            }
            _ => "",
        };
        let _ = write!(
            text,
            "\n{remark}[[member]]\nname = \"{name}\"\nagent = \"{agent}\"\nrole-summary = \"{summary}\"\ninstructions = \"{instructions}\"\n"
        );
        if index == 0 {
            text += "\
memory = \"session\"                       # goes on with its own session: it keeps what it has read, and is sent
                                         # only what is new; the others judge every turn afresh
# instructions-file = \"agents/lead.md\"   # longer instructions, in a file below this one
# model = \"…\"                            # default: the agent's own choice
# sandbox = \"edit\"                       # may change files; takes effect after `convoke trust`
";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoke_team::Team;

    #[test]
    fn the_file_is_a_valid_team_whatever_is_installed() {
        let known = convoke_vendors::programs().clis;
        for installed in [&[], &known[1..2], &known[..2], known] {
            let text = team_file(installed, "kim", Path::new("/work/a \"quoted\"\nname"));
            let team = Team::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(team.members.len(), 1 + installed.len().max(2), "{text}");
            assert_eq!(team.name.as_deref(), Some("a \"quoted\"\nname"));
        }
    }
}
