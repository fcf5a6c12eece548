//! Short help: the commands by purpose, one line per option, and the global options in one place.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

/// The commands that `convoke --help` lists, by what people want. The others are described by `convoke help COMMAND`.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Look", &["explain", "open", "usage", "watch", "capture", "request", "prompt"]),
    ("Work", &["run", "chat", "ask", "review", "continue"]),
    ("Keep", &["sessions", "changes", "undo", "redo"]),
    ("Set up", &["init", "doctor", "trust", "docs"]),
    ("Connect", &["serve", "acp", "mcp", "node"]),
];

/// The global options, at the end of `convoke --help`.
pub const GLOBAL_OPTIONS: &str = "\
Global options:
  --color auto|always|never  colours: on a terminal, always or never
  -q, --quiet                results, errors and losses only
  -v, --verbose              log to standard error; repeat for more detail
  --store URL                sessions in a PostgreSQL database

`convoke help COMMAND` describes a command in full; `convoke docs` shows the documentation.";

/// The names of the global arguments.
const GLOBAL: [&str; 4] = ["color", "quiet", "verbose", "store"];

/// Returns a command whose `--help` is the short one, without the global options.
pub fn compact(command: Command) -> Command {
    let root = GLOBAL.into_iter().fold(command, |command, name| {
        command.mut_arg(name, |argument| argument.hide_short_help(true))
    });
    let groups = groups(&root);
    let root = root.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}\nOptions:\n{{options}}{{after-help}}"
    ));
    with_short_help(root)
}

/// Returns the commands with what they do, by group.
fn groups(root: &Command) -> String {
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max();
    let width = width.unwrap_or(0);
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{title}:");
        for command in names.iter().filter_map(|name| root.find_subcommand(name)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {:<width$}  {about}", command.get_name());
        }
    }
    text
}

fn with_short_help(command: Command) -> Command {
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
    let help = help.help("Print help").help_heading(None::<&str>);
    let is_cut =
        command.get_arguments().any(Arg::is_hide_short_help_set) && !command.has_subcommands();
    let command = command.disable_help_flag(true).arg(help);
    let command = if is_cut { with_pointer(command) } else { command };
    command.mut_subcommands(with_short_help)
}

/// Adds a pointer to the options that the short help leaves out.
fn with_pointer(command: Command) -> Command {
    let pointer = format!("`convoke help {}` describes all options.", command.get_name());
    let after = match command.get_after_help() {
        Some(after) => format!("{after}\n\n{pointer}"),
        None => pointer,
    };
    command.after_help(after)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn every_command_is_listed_once_or_hidden() {
        let command = crate::Arguments::command();
        for subcommand in command.get_subcommands() {
            let name = subcommand.get_name();
            let listed = GROUPS.iter().flat_map(|(_, names)| *names).filter(|it| **it == name);
            assert_eq!(listed.count(), usize::from(!subcommand.is_hide_set()), "{name}");
        }
    }
}
