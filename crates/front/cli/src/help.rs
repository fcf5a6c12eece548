//! Short help: one line per option, and the global options in one place.

use clap::{Arg, ArgAction, Command};

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
    with_short_help(root)
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
