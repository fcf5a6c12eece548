//! `convoke trust`: the directories whose team files may choose what runs on this machine.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, IsTerminal as _, Write, stdin};
use std::path::{Path, PathBuf};

use clap::Args;
use convoke_agent::command_files::CommandFiles;
use convoke_inspect::HostEnvironment;
use convoke_team::{MemberChoices, PermissionRules};
use serde_json::json;

use crate::conversation::home::Home;
use crate::conversation::project::{self, Project, TEAM_FILE, UserConfiguration};
use crate::conversation::trust::{Declined, DirectoryTrust, TrustedDirectories, shown_choice};
use crate::conversation::unlocked::{Unlocked, unlocked};
use crate::host_environment;
use crate::outcome::{AfterWork as _, Outcome, UsageError};
use crate::terminal::{Paint, Screen, printable, spelled_out, stdout};

/// Let a directory's team file choose what runs.
///
/// Until then a team file cannot choose commands, arguments, environment variables, working directories, wider
/// permissions, model addresses and keys, or instructions files outside the project.
///
/// Shows the settings that need trust, then asks you to confirm. Trust covers this directory only, not the
/// directories below it, and only the current settings: if the team file asks for more later, you have to
/// trust it again. The same holds for the project's files that name commands for agents and git.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The directory of the team file [default: this one]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Grant without confirmation
    #[arg(long, short)]
    yes: bool,
    /// Revoke trust
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
    /// List the trusted directories
    #[arg(long, conflicts_with_all = ["revoke", "yes", "directory"])]
    list: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Runs `convoke trust`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    let home = Home::new(&host_environment);
    let given = arguments.directory.as_deref().unwrap_or(&host_environment.cwd);
    if arguments.list {
        return list(&TrustedDirectories::load(&home)?, arguments);
    }
    let directory = real_directory(given, arguments)?;
    if arguments.revoke {
        return revoke(&directory, &home, arguments);
    }
    grant(&directory, &home, &host_environment, arguments)
}

/// Returns a directory for people, on one line.
fn shown(directory: &Path) -> String {
    spelled_out(&directory.display().to_string()).into_owned()
}

/// Asks once whether a directory is trusted, before the first run in it, if trust would change anything there.
pub(super) fn ask_before_run(
    directory: &Path,
    host_environment: &HostEnvironment,
) -> anyhow::Result<()> {
    let home = Home::new(host_environment);
    let mut user = UserConfiguration::load(&home)?;
    let directory = directory.canonicalize()?;
    let (asked, commands) = requested(&directory, &user)?;
    let asked = asked.unwrap_or_default();
    let mut declined = Declined::load(&home)?;
    let before = user.trusted.trust_of(&directory, &asked);
    if before != DirectoryTrust::Untrusted || declined.has(&directory) {
        return Ok(());
    }
    let request = Request {
        directory: &directory,
        rules: &user.permissions.rules_for(&directory),
        asked: Some(&asked),
        granted: BTreeSet::new(),
        before,
        commands: &commands,
        trusted_commands: None,
        unlocked: unlocked(&directory, host_environment),
    };
    if request.changes_nothing() {
        return Ok(());
    }
    let mut out = stdout();
    request.show(&mut out)?;
    match ask(&mut out)? {
        Confirmation::Yes => {
            project::as_text(&directory)?;
            user.trusted.grant(directory, &asked, commands);
            user.trusted.save(&home)?;
        }
        Confirmation::No => {
            declined.add(directory);
            declined.save(&home)?;
            writeln!(out, "The run goes on without it; `convoke trust` asks again.\n")?;
        }
        Confirmation::NotAsked => {}
    }
    Ok(())
}

fn grant(
    directory: &Path,
    home: &Home,
    host_environment: &HostEnvironment,
    arguments: &Arguments,
) -> anyhow::Result<Outcome> {
    let mut user = UserConfiguration::load(home)?;
    let (asked, commands) = requested(directory, &user)?;
    let before = match &asked {
        Some(asked) => user.trusted.trust_of(directory, asked),
        None => user.trusted.trust_of(directory, &[]),
    };
    let mut out = stdout();
    let rules = user.permissions.rules_for(directory);
    let request = Request {
        directory,
        rules: &rules,
        asked: asked.as_deref(),
        granted: shown_grants(&user.trusted, directory),
        before,
        commands: &commands,
        trusted_commands: user.trusted.granted(directory).map(|it| it.commands.clone()),
        unlocked: unlocked(directory, host_environment),
    };
    let is_covered = before == DirectoryTrust::Trusted && request.changed_commands().is_empty();
    if !arguments.json {
        request.show(&mut out)?;
    }
    let answer = if is_covered || arguments.yes {
        Confirmation::Yes
    } else if arguments.json {
        Confirmation::NotAsked
    } else {
        ask(&mut out)?
    };
    let is_new = answer == Confirmation::Yes && !is_covered;
    if is_new {
        project::as_text(directory)?;
        let asked = asked.as_deref().unwrap_or_default();
        user.trusted.grant(directory.to_owned(), asked, commands.clone());
        user.trusted.save(home)?;
    }
    let name = shown(directory);
    let written = if arguments.json {
        request.write_json(&mut out, answer == Confirmation::Yes, is_new)
    } else if is_new {
        writeln!(out, "{name} is trusted now.")
    } else {
        Ok(())
    };
    if is_new {
        written.after(format!("{name} is trusted now"))?;
    } else {
        written?;
    }
    match answer {
        Confirmation::Yes => Ok(Outcome::Done),
        Confirmation::No => {
            writeln!(out, "Nothing was granted.")?;
            Ok(Outcome::Failed)
        }
        Confirmation::NotAsked => Err(UsageError(
            "nothing was granted: a confirmation needs a terminal; pass `--yes` to grant the settings shown"
                .to_owned(),
        )
        .into()),
    }
}

fn revoke(directory: &Path, home: &Home, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut trusted = TrustedDirectories::load(home)?;
    let changed = trusted.remove(directory);
    if changed {
        trusted.save(home)?;
    }
    let mut out = stdout();
    let written = if arguments.json {
        let answer = json!({"directory": directory, "trusted": false, "changed": changed});
        writeln!(out, "{answer}")
    } else if changed {
        writeln!(out, "{} is no longer trusted.", shown(directory))
    } else {
        writeln!(out, "{} was not trusted.", shown(directory))
    };
    if changed {
        written.after(format!("{} is no longer trusted", shown(directory)))?;
    } else {
        written?;
    }
    Ok(Outcome::Done)
}

fn list(trusted: &TrustedDirectories, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut out = stdout();
    if arguments.json {
        let directories: Vec<&Path> = trusted.iter().collect();
        writeln!(out, "{}", json!({"version": 1, "directories": directories}))?;
        return Ok(Outcome::Done);
    }
    if trusted.iter().next().is_none() {
        writeln!(out, "No directory is trusted.")?;
    }
    for directory in trusted.iter() {
        writeln!(out, "{}", shown(directory))?;
    }
    Ok(Outcome::Done)
}

/// Returns the real path of a directory. A removed directory can still be revoked by its full path.
fn real_directory(given: &Path, arguments: &Arguments) -> Result<PathBuf, UsageError> {
    let shown = shown(given);
    match given.canonicalize() {
        Ok(path) if path.is_dir() => Ok(path),
        Ok(_) => Err(UsageError(format!(
            "{shown} is not a directory; name the directory of the team file"
        ))),
        Err(_) if arguments.revoke && given.is_absolute() => Ok(given.to_owned()),
        Err(error) => Err(UsageError(format!("cannot read {shown}: {error}"))),
    }
}

/// Returns the settings of a directory's team file that need trust, `None` without a team file; and the files that name commands.
fn requested(
    directory: &Path,
    user: &UserConfiguration,
) -> anyhow::Result<(Option<Vec<MemberChoices>>, CommandFiles)> {
    let path = directory.join(TEAM_FILE);
    if !path.exists() {
        let below = [PathBuf::new()].into();
        return Ok((None, CommandFiles::read(directory, &below, Some(&user.home))));
    }
    let project = Project::read_to_trust(&path, user)?;
    Ok((Some(project.choices()), project.command_files()))
}

/// Returns the earlier grants as lines, for comparison.
fn shown_grants(trusted: &TrustedDirectories, directory: &Path) -> BTreeSet<String> {
    let granted = trusted.granted(directory).into_iter().flat_map(|granted| &granted.members);
    let lines =
        granted.flat_map(|(member, granted)| granted.shown.iter().map(move |it| line(member, it)));
    lines.collect()
}

fn line(member: &str, choice: &str) -> String {
    format!("{member}: {choice}")
}

/// The choices of a team file and the earlier grants.
struct Request<'a> {
    directory: &'a Path,
    /// The user's own rules for agents that ask here.
    rules: &'a PermissionRules,
    /// `None` without a team file.
    asked: Option<&'a [MemberChoices]>,
    granted: BTreeSet<String>,
    before: DirectoryTrust,
    /// The files that name commands, and those that were trusted; `None` if the directory was not.
    commands: &'a CommandFiles,
    trusted_commands: Option<CommandFiles>,
    /// The instructions that programs get only in a trusted directory.
    unlocked: Vec<Unlocked>,
}

impl Request<'_> {
    /// Returns the choices as lines.
    fn lines(&self) -> Vec<String> {
        let asked = self.asked.into_iter().flatten();
        asked
            .flat_map(|it| it.choices.iter().map(|choice| line(&it.member, &shown_choice(choice))))
            .collect()
    }

    /// Returns whether trust would change nothing.
    fn changes_nothing(&self) -> bool {
        let is_empty = self.lines().is_empty() && self.unlocked.is_empty();
        is_empty && self.commands.paths().next().is_none()
    }

    /// Names the instruction files that programs read only in a trusted directory.
    fn show_unlocked(&self, out: &mut Screen, paint: Paint) -> io::Result<()> {
        if self.before != DirectoryTrust::Untrusted || self.unlocked.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "Without trust, programs are started without their instructions of this directory:"
        )?;
        for Unlocked { program, files } in &self.unlocked {
            let names = files.iter().map(|file| {
                let below = file.strip_prefix(self.directory).unwrap_or(file);
                spelled_out(&below.display().to_string()).into_owned()
            });
            let names = names.collect::<Vec<_>>().join(", ");
            writeln!(out, "  {program}: {}", paint.warning(&names))?;
        }
        Ok(())
    }

    /// Returns the files that name commands and changed since the directory was trusted.
    fn changed_commands(&self) -> Vec<&str> {
        let trusted = self.trusted_commands.as_ref();
        trusted.map_or_else(Vec::new, |trusted| self.commands.changed_since(trusted))
    }

    /// Shows the files that name commands: all at first, then those that changed.
    fn show_commands(&self, out: &mut Screen, paint: Paint) -> io::Result<()> {
        let changed = self.changed_commands();
        let (shown, heading): (Vec<&str>, _) = match &self.trusted_commands {
            None if self.commands.paths().next().is_none() => (
                Vec::new(),
                "Trust also covers files of the project that name commands for agents and git; there are none now.",
            ),
            None => (
                self.commands.paths().collect(),
                "Trust also covers these files, which name commands for agents and git:",
            ),
            Some(_) if changed.is_empty() => return Ok(()),
            Some(_) => (
                changed,
                "Files that name commands changed since you trusted the directory (+ new, ~ changed):",
            ),
        };
        writeln!(out, "{heading}")?;
        for path in shown {
            let mark = match &self.trusted_commands {
                None => " ",
                Some(trusted) if trusted.contains(path) => "~",
                Some(_) => "+",
            };
            writeln!(out, "{mark} {}", paint.warning(&spelled_out(path)))?;
        }
        Ok(())
    }

    fn show(&self, out: &mut Screen) -> io::Result<()> {
        let paint = Paint::for_stream(out);
        let shown = shown(self.directory);
        let lines = self.lines();
        let what = match (self.asked, lines.is_empty()) {
            (None, _) => format!("there is no {TEAM_FILE} yet"),
            (Some(_), true) => "the team file has no setting that needs trust".to_owned(),
            (Some(_), false) => "the team file asks for".to_owned(),
        };
        let end = if lines.is_empty() { "." } else { ":" };
        match self.before {
            DirectoryTrust::Untrusted => writeln!(out, "{shown} is not trusted; {what}{end}")?,
            DirectoryTrust::Trusted => writeln!(out, "{shown} is trusted; {what}{end}")?,
            DirectoryTrust::Changed => writeln!(
                out,
                "{shown} is trusted, but its team file has changed (+ new, - no longer asked for):"
            )?,
        }
        let is_changed = self.before == DirectoryTrust::Changed;
        for line in &lines {
            let is_new = is_changed && !self.granted.contains(line);
            let mark = if is_new { "+" } else { " " };
            writeln!(out, "{mark} {}", paint.warning(&printable(line)))?;
        }
        if is_changed {
            let lines: BTreeSet<String> = lines.into_iter().collect();
            for line in self.granted.difference(&lines) {
                writeln!(out, "- {}", paint.faint(&printable(line)))?;
            }
        }
        if !self.rules.is_empty() {
            writeln!(out, "Your rules for agents that ask here (permissions.toml):")?;
            let allow = self.rules.allow.iter().map(|rule| ("allow", rule));
            for (word, rule) in allow.chain(self.rules.never.iter().map(|rule| ("never", rule))) {
                writeln!(out, "  {word} {}", printable(rule))?;
            }
        }
        self.show_unlocked(out, paint)?;
        self.show_commands(out, paint)
    }

    fn write_json(&self, out: &mut impl Write, trusted: bool, changed: bool) -> io::Result<()> {
        let asks = self.lines();
        let added: Vec<&String> = asks.iter().filter(|it| !self.granted.contains(*it)).collect();
        let removed: Vec<&String> = self.granted.iter().filter(|it| !asks.contains(it)).collect();
        let answer = json!({
            "directory": self.directory,
            "trusted": trusted,
            "changed": changed,
            "asks": asks,
            "added": added,
            "removed": removed,
            "instructions": self.unlocked,
            "commandFiles": self.commands.paths().collect::<Vec<_>>(),
            "changedCommandFiles": self.changed_commands(),
            "rules": { "allow": self.rules.allow, "never": self.rules.never },
        });
        writeln!(out, "{answer}")
    }
}

/// The answer to the confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Confirmation {
    Yes,
    No,
    /// There is no terminal.
    NotAsked,
}

fn ask(out: &mut Screen) -> io::Result<Confirmation> {
    if !stdin().is_terminal() || !out.is_terminal() {
        return Ok(Confirmation::NotAsked);
    }
    write!(out, "Trust it? [y/N] ")?;
    out.flush()?;
    let mut written = String::new();
    stdin().lock().read_line(&mut written)?;
    let is_yes = matches!(written.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    Ok(if is_yes { Confirmation::Yes } else { Confirmation::No })
}
