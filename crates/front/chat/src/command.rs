//! Slash commands. One table drives the parser, the help and the completion.

use convoke_core::name::nearest;

/// A command as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The command.
    pub verb: Verb,
    /// The text after the name.
    pub rest: String,
}

/// The commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Change the recipients of the following messages.
    To,
    /// Speak as another person.
    As,
    /// Remove a member's turns from the queue.
    Drop,
    /// Set the team task.
    Task,
    /// Cancel the running turn.
    Cancel,
    /// Retry a turn.
    Retry,
    /// Run the queued turns.
    Go,
    /// Undo the changes of a turn.
    Undo,
    /// Redo the changes of an undone turn.
    Redo,
    /// Show the ledger of a prompt.
    Ledger,
    /// Show a prompt.
    Prompt,
    /// Write a message in an editor.
    Edit,
    /// Show the commands and keys.
    Help,
    /// Quit.
    Quit,
}

/// The kind of argument of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentKind {
    /// None.
    Nothing,
    /// Words, or nothing.
    Optional,
    /// Text.
    Text,
    /// The name of a person.
    Person,
    /// The name of an agent.
    Agent,
    /// Names of members, or `all`.
    Members,
}

/// One row of the table of commands.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The command.
    pub verb: Verb,
    /// The name, without the slash.
    pub name: &'static str,
    /// The kind of argument.
    pub takes: ArgumentKind,
    /// The notation of the argument in the help.
    pub usage: &'static str,
    /// The description in the help.
    pub meaning: &'static str,
}

/// Every command.
pub const COMMANDS: [Entry; 14] = {
    use ArgumentKind::{Agent, Members, Nothing, Optional, Person, Text};
    const fn entry(
        verb: Verb,
        name: &'static str,
        takes: ArgumentKind,
        usage: &'static str,
        meaning: &'static str,
    ) -> Entry {
        Entry { verb, name, takes, usage, meaning }
    }
    [
        entry(
            Verb::To,
            "to",
            Members,
            "NAME …",
            "send the next messages to these members, or to all",
        ),
        entry(Verb::As, "as", Person, "NAME", "speak as another person of the team"),
        entry(Verb::Task, "task", Text, "TEXT", "set the team task"),
        entry(
            Verb::Drop,
            "drop",
            Members,
            "NAME …",
            "remove the queued turns of these members, or of all",
        ),
        entry(Verb::Cancel, "cancel", Nothing, "", "cancel the running turn"),
        entry(
            Verb::Retry,
            "retry",
            Nothing,
            "",
            "retry the last turn that failed or was cancelled",
        ),
        entry(Verb::Go, "go", Nothing, "", "run the queued turns"),
        entry(
            Verb::Undo,
            "undo",
            Optional,
            "[N] [yes]",
            "preview undoing a turn's changes, or undo them",
        ),
        entry(
            Verb::Redo,
            "redo",
            Optional,
            "[N] [yes]",
            "preview redoing an undone turn's changes, or redo them",
        ),
        entry(Verb::Ledger, "ledger", Agent, "[NAME]", "show the ledger of the last prompt"),
        entry(Verb::Prompt, "prompt", Agent, "[NAME]", "show the last prompt"),
        entry(
            Verb::Edit,
            "edit",
            Optional,
            "[TEXT]",
            "write a message in $VISUAL or $EDITOR, then Enter sends it",
        ),
        entry(Verb::Help, "help", Nothing, "", "show the commands and keys"),
        entry(Verb::Quit, "quit", Nothing, "", "save and quit"),
    ]
};

/// An invalid command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCommand {
    /// The command is unknown.
    #[error("unknown command /{name}; {hint}")]
    Unknown {
        /// The name as typed.
        name: String,
        /// A suggestion.
        hint: String,
    },
    /// The argument is missing.
    #[error("write /{name} {usage}")]
    Incomplete {
        /// The command.
        name: &'static str,
        /// The notation of the argument.
        usage: &'static str,
    },
}

/// Parses a line that begins with a slash; other lines are messages.
///
/// A space before the slash makes the line a message.
pub fn parse(line: &str) -> Option<Result<Command, BadCommand>> {
    let line = line.strip_prefix('/')?;
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim().to_owned();
    let Some(entry) = COMMANDS.iter().find(|entry| entry.name.eq_ignore_ascii_case(name)) else {
        let hint = match nearest(name, COMMANDS.iter().map(|entry| entry.name)) {
            Some(near) => format!("did you mean /{near}?"),
            None => "see /help, or put a space before the slash to send it as a message".to_owned(),
        };
        return Some(Err(BadCommand::Unknown { name: name.to_owned(), hint }));
    };
    if rest.is_empty()
        && !matches!(
            entry.takes,
            ArgumentKind::Nothing | ArgumentKind::Optional | ArgumentKind::Agent
        )
    {
        return Some(Err(BadCommand::Incomplete { name: entry.name, usage: entry.usage }));
    }
    Some(Ok(Command { verb: entry.verb, rest }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_distinguished_from_messages_and_errors_are_explained() {
        let read = |line: &str| match parse(line) {
            None => "a message".to_owned(),
            Some(Ok(command)) => format!("{:?} {:?}", command.verb, command.rest),
            Some(Err(error)) => error.to_string(),
        };
        for (line, expected) in [
            ("hello", "a message"),
            (" /etc/hosts is odd", "a message"),
            ("/to  lin, sam ", "To \"lin, sam\""),
            ("/QUIT", "Quit \"\""),
            ("/ledger", "Ledger \"\""),
            ("/task", "write /task TEXT"),
            ("/quitt", "unknown command /quitt; did you mean /quit?"),
            (
                "/etc/hosts is odd",
                "unknown command /etc/hosts; see /help, or put a space before the slash to send it as a message",
            ),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }
}
