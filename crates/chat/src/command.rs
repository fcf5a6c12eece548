//! Commands: what a person can do besides speaking. One table makes the parser, the help and the
//! completion.

use convoke_core::name::nearest;

/// A command, as it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Which one.
    pub verb: Verb,
    /// What stands after it.
    pub rest: String,
}

/// What can be commanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Address somebody from now on.
    To,
    /// Speak as another person.
    As,
    /// Take somebody's turns out of the queue.
    Drop,
    /// Set the team task.
    Task,
    /// End the turn that is under way.
    Cancel,
    /// Try a turn again.
    Retry,
    /// Go on with what waits.
    Go,
    /// Take back what a turn changed.
    Undo,
    /// Show the account of a prompt.
    Ledger,
    /// Show a prompt.
    Prompt,
    /// Show the commands and keys.
    Help,
    /// Leave.
    Quit,
}

/// Who can stand after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Nothing.
    Nothing,
    /// Words, or nothing.
    Optional,
    /// Words.
    Text,
    /// The name of a person.
    Person,
    /// The name of an agent.
    Agent,
    /// Names of members, or `all`.
    Members,
}

/// How a command is written and what it does.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Which command.
    pub verb: Verb,
    /// Its name.
    pub name: &'static str,
    /// What stands after it.
    pub takes: Takes,
    /// How that is written.
    pub usage: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

/// Every command.
pub const COMMANDS: [Entry; 12] = {
    use Takes::{Agent, Members, Nothing, Optional, Person, Text};
    const fn entry(
        verb: Verb,
        name: &'static str,
        takes: Takes,
        usage: &'static str,
        meaning: &'static str,
    ) -> Entry {
        Entry { verb, name, takes, usage, meaning }
    }
    [
        entry(Verb::To, "to", Members, "NAME …", "address these from now on (or: all)"),
        entry(Verb::As, "as", Person, "NAME", "speak as another person of the team"),
        entry(Verb::Task, "task", Text, "TEXT", "set what the team is to do"),
        entry(Verb::Drop, "drop", Members, "NAME …", "take their turns out of the queue (or: all)"),
        entry(Verb::Cancel, "cancel", Nothing, "", "end the turn that is under way"),
        entry(Verb::Retry, "retry", Nothing, "", "try the turn again that was not done"),
        entry(Verb::Go, "go", Nothing, "", "run the queued turns"),
        entry(
            Verb::Undo,
            "undo",
            Optional,
            "[N] [yes]",
            "show what taking a turn's changes back would do, or do it",
        ),
        entry(Verb::Ledger, "ledger", Agent, "[NAME]", "account for the last prompt, byte by byte"),
        entry(Verb::Prompt, "prompt", Agent, "[NAME]", "show exactly what was sent last"),
        entry(Verb::Help, "help", Nothing, "", "show the commands and keys"),
        entry(Verb::Quit, "quit", Nothing, "", "save and leave"),
    ]
};

/// A line that looks like a command and is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCommand {
    /// There is no such command.
    #[error("there is no command /{name}; {hint}")]
    Unknown {
        /// What was typed.
        name: String,
        /// What was probably meant.
        hint: String,
    },
    /// It needs more.
    #[error("write /{name} {usage}")]
    Incomplete {
        /// The command.
        name: &'static str,
        /// How it is written.
        usage: &'static str,
    },
}

/// Reads a line as a command; a line that begins otherwise is none.
///
/// A message that begins with a slash is written with a space before it.
pub fn parse(line: &str) -> Option<Result<Command, BadCommand>> {
    let line = line.strip_prefix('/')?;
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim().to_owned();
    let Some(entry) = COMMANDS.iter().find(|entry| entry.name.eq_ignore_ascii_case(name)) else {
        let hint = match nearest(name, COMMANDS.iter().map(|entry| entry.name)) {
            Some(near) => format!("did you mean /{near}?"),
            None => "/help shows those there are; a space before it sends it".to_owned(),
        };
        return Some(Err(BadCommand::Unknown { name: name.to_owned(), hint }));
    };
    if rest.is_empty() && !matches!(entry.takes, Takes::Nothing | Takes::Optional | Takes::Agent) {
        return Some(Err(BadCommand::Incomplete { name: entry.name, usage: entry.usage }));
    }
    Some(Ok(Command { verb: entry.verb, rest }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_messages_and_mistakes_are_explained() {
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
            ("/quitt", "there is no command /quitt; did you mean /quit?"),
            (
                "/etc/hosts is odd",
                "there is no command /etc/hosts; /help shows those there are; a space before it sends it",
            ),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }
}
