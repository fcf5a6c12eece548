//! Parses input lines into actions.

use convoke_core::marker::scan;
use convoke_core::name::NameKey;
use convoke_protocol::id::{MemberName, TurnId};
use convoke_session::file_changes::{UndoAction, UndoConsent};
use convoke_team::Team;

use crate::command::{Command, Verb, parse};

/// The maximum number of bytes of a name after an `@`.
const MAX_NAME_LENGTH: usize = 64;

/// The action of an input line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserAction {
    /// Send a message.
    Say {
        /// The text, with its markers.
        text: String,
        /// The recipients if the text names none.
        to: Vec<String>,
    },
    /// Change the recipients of the following messages.
    Address(Vec<String>),
    /// Speak as another person.
    SpeakAs(MemberName),
    /// Cancel the running turn.
    Cancel,
    /// Retry the last turn that failed or was cancelled.
    Retry,
    /// Run the queued turns.
    Continue,
    /// Undo or redo the changes of a turn, by default the latest.
    Undo {
        /// Which of the two.
        action: UndoAction,
        turn: Option<TurnId>,
        /// The consent of the person.
        consent: UndoConsent,
    },
    /// Show the last prompt of a member, or of all.
    Look(PromptView, Option<MemberName>),
    /// Write a message in the person's editor.
    Edit(String),
    /// Show the help.
    Help,
    /// Quit.
    Quit,
}

/// Parses the argument of `/undo` or `/redo`.
fn undo(action: UndoAction, rest: &str) -> Result<UserAction, String> {
    let mut words: Vec<&str> = rest.split_whitespace().collect();
    let consent = match words.last().map(|word| word.to_ascii_lowercase()).as_deref() {
        Some("yes") => UndoConsent::Turn,
        Some("shared") => UndoConsent::Shared,
        _ => UndoConsent::Preview,
    };
    if consent != UndoConsent::Preview {
        words.pop();
    }
    let turn = match words[..] {
        [] => None,
        [number] => match number.parse() {
            Ok(0) | Err(_) => return Err("a turn number is 1 or more".to_owned()),
            Ok(number) => Some(TurnId(number)),
        },
        _ => {
            return Err(match action {
                UndoAction::Undo => "write /undo [N] [yes|shared]".to_owned(),
                UndoAction::Redo => "write /redo [N] [yes]".to_owned(),
            });
        }
    };
    Ok(UserAction::Undo { action, turn, consent })
}

/// The view of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptView {
    /// The ledger.
    Ledger,
    /// The texts.
    Prompt,
}

/// Parses the input of a person in a team.
#[derive(Debug, Clone, Copy)]
pub struct InputParser<'a> {
    team: &'a Team,
}

impl<'a> InputParser<'a> {
    /// Creates the parser for a team.
    pub fn new(team: &'a Team) -> Self {
        Self { team }
    }

    /// Parses a line. `to` are the recipients if the line names none.
    ///
    /// Names with `@` at the beginning of the line are recipients and not part of the message.
    pub fn understand(self, line: &str, to: &[String]) -> Result<UserAction, String> {
        match parse(line) {
            None => Ok(self.say(line, to)),
            Some(Ok(command)) => self.command(&command),
            Some(Err(error)) => Err(error.to_string()),
        }
    }

    /// Resolves recipients: `all` is everyone but the speaker.
    pub fn meant(self, speaker: &MemberName, to: Vec<String>) -> Vec<String> {
        if to.iter().all(|name| !NameKey::new(name).is_all()) {
            return to;
        }
        self.team.everyone_but(speaker).iter().map(ToString::to_string).collect()
    }

    /// Returns the members that `@NAME` at the beginning of a message addresses, and the rest of the message.
    pub fn addressed(self, line: &str) -> (Vec<String>, &str) {
        let mut named = Vec::new();
        let mut rest = line.trim();
        while let Some((name, after)) = self.mention(rest) {
            named.push(name);
            rest = after.trim_start_matches([',', ':', '，', '：']).trim_start();
        }
        (named, rest)
    }

    fn say(self, line: &str, to: &[String]) -> UserAction {
        let (named, rest) = self.addressed(line);
        if named.is_empty() {
            // The text is sent as written.
            return UserAction::Say { text: line.to_owned(), to: to.to_vec() };
        }
        UserAction::Say { text: rest.to_owned(), to: named }
    }

    /// Splits the longest matching `@name` off the beginning.
    fn mention(self, text: &str) -> Option<(String, &str)> {
        let after = text.strip_prefix('@')?;
        let ends = after.char_indices().map(|(at, c)| at + c.len_utf8());
        // Names are short: bound the search.
        let ends = ends.take_while(|end| *end <= MAX_NAME_LENGTH);
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let found = ends.filter_map(|end| {
            let (name, rest) = after.split_at(end);
            let is_whole = !rest.starts_with(is_word) && name.ends_with(is_word);
            let meant = is_whole.then(|| self.member(name)).flatten()?;
            Some((meant, rest))
        });
        found.last()
    }

    fn member(self, written: &str) -> Option<String> {
        if NameKey::new(written).is_all() {
            return Some("all".to_owned());
        }
        self.team.resolve(written).map(ToString::to_string)
    }

    fn command(self, Command { verb, rest }: &Command) -> Result<UserAction, String> {
        Ok(match verb {
            Verb::To => UserAction::Address(self.members(rest)?),
            Verb::As => match self.team.resolve_person(rest) {
                Some(person) => UserAction::SpeakAs(person.clone()),
                None => return Err(format!("no person has the name `{rest}`; {}", self.people())),
            },
            Verb::Drop => {
                let names = self.members(rest)?.join(", ");
                self.marker(format!("[DROP: {names}]"), |scan| !scan.drop.is_empty())?
            }
            Verb::Task => self.marker(format!("[TEAM_TASK] {rest}"), |scan| scan.task.is_some())?,
            Verb::Cancel => UserAction::Cancel,
            Verb::Retry => UserAction::Retry,
            Verb::Go => UserAction::Continue,
            Verb::Undo => undo(UndoAction::Undo, rest)?,
            Verb::Redo => undo(UndoAction::Redo, rest)?,
            Verb::Ledger => UserAction::Look(PromptView::Ledger, self.agent(rest)?),
            Verb::Prompt => UserAction::Look(PromptView::Prompt, self.agent(rest)?),
            Verb::Edit => UserAction::Edit(rest.clone()),
            Verb::Help => UserAction::Help,
            Verb::Quit => UserAction::Quit,
        })
    }

    /// Sends a message with one marker, if the team's text policy supports it.
    fn marker(
        self,
        text: String,
        is_there: impl Fn(&convoke_core::marker::Scan<'_>) -> bool,
    ) -> Result<UserAction, String> {
        if !is_there(&scan(&text, self.team.context.text)) {
            return Err("the text policy of this team does not support that marker".to_owned());
        }
        Ok(UserAction::Say { text, to: Vec::new() })
    }

    fn members(self, written: &str) -> Result<Vec<String>, String> {
        // A name may contain spaces, so spaces separate names only if there is no comma.
        let whole = self.member(written).map(|member| vec![member]);
        let names: Vec<&str> = if written.contains([',', '，']) {
            written.split([',', '，']).collect()
        } else {
            written.split_whitespace().collect()
        };
        let each = || {
            let names = names.iter().map(|name| name.trim().trim_start_matches('@'));
            names.filter(|name| !name.is_empty()).map(|name| {
                let unknown =
                    || format!("no member has the name `{name}`; {}", self.team.hint(name));
                self.member(name).ok_or_else(unknown)
            })
        };
        whole.map_or_else(|| each().collect(), Ok)
    }

    fn agent(self, written: &str) -> Result<Option<MemberName>, String> {
        if written.is_empty() {
            return Ok(None);
        }
        let found = self.team.resolve(written.trim_start_matches('@'));
        let unknown = || format!("no member has the name `{written}`; {}", self.team.hint(written));
        found.map(|member| Some(member.clone())).ok_or_else(unknown)
    }

    fn people(self) -> String {
        let people: Vec<&str> = self.team.people().map(MemberName::as_str).collect();
        format!("people: {}", people.join(", "))
    }
}
