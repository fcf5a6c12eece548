//! The parts of another program's request, by its window.

use std::borrow::Cow;

use convoke_open::request::{LedgerEntry, SentRequest};
use convoke_protocol::window::{Part as WindowPart, Role, Text};
use serde_json::Value;

use super::{Form, Kind, Part, file_name, short_path};
use crate::views::programs::session::{first_words, telling};
use crate::views::text::beginning;

/// The maximum number of bytes of a text that are looked at for its label.
const LOOKED_AT: usize = 2 << 10;
/// How a text begins that programs put into the message of a person.
const REMINDERS: [&str; 3] = ["<system-reminder", "<environment_context", "<permissions"];

/// Returns the parts of a request.
pub(crate) fn of_request(request: &SentRequest) -> Vec<Part<'_>> {
    let ledger = request.ledger();
    ledger.iter().enumerate().map(|(index, entry)| of_entry(request, index, entry)).collect()
}

fn of_entry<'w>(request: &'w SentRequest, index: usize, entry: &LedgerEntry<'_>) -> Part<'w> {
    let (kind, label, text, form) = content(request, index, entry);
    let section = match entry.message {
        Some(message) => format!("{} · message {}", entry.section, message + 1),
        None if kind == Kind::Unknown => kind.name().to_owned(),
        None => entry.section.to_owned(),
    };
    Part {
        index,
        kind,
        section,
        label,
        source: entry.place.map_or_else(|| "the provider's count".to_owned(), ToString::to_string),
        rule: match entry.how {
            "logged" => "the program logged it".to_owned(),
            "matched" => "rebuilt from the session".to_owned(),
            how => how.to_owned(),
        },
        bytes: entry.bytes,
        tokens: entry.tokens,
        left_out: 0,
        text,
        form,
    }
}

fn content<'w>(
    request: &'w SentRequest,
    index: usize,
    entry: &LedgerEntry<'_>,
) -> (Kind, String, Option<Cow<'w, str>>, Form) {
    let window = &request.window;
    if let Some(system) = window.system.get(index) {
        let (label, text) = (title(&system.what), kept(&system.what));
        return (Kind::System, label, text, Form::Text);
    }
    let Some(part) = window.parts.get(index.saturating_sub(window.system.len())) else {
        return (Kind::Unknown, entry.title.clone(), None, Form::Text);
    };
    match &part.part.what {
        WindowPart::Call { name, input } => {
            let (text, form) = pretty(input);
            (Kind::Replies, format!("{name} {}", telling(input)), Some(text), form)
        }
        WindowPart::Result(text) => (Kind::Results, title(text), kept(text), Form::Text),
        WindowPart::Thinking(text) => {
            (Kind::Replies, "reasoning".to_owned(), kept(text), Form::Text)
        }
        WindowPart::Image(_) => (kind(part.role, ""), "image".to_owned(), None, Form::Text),
        WindowPart::Text(text) => {
            let whole = text.text.as_deref().unwrap_or_default();
            let kind = kind(part.role, whole);
            let label = match instruction_file(whole) {
                Some(file) if kind != Kind::Replies => file.to_owned(),
                _ => title(text),
            };
            let kind = if kind != Kind::Replies && instruction_file(whole).is_some() {
                Kind::Files
            } else {
                kind
            };
            (kind, label, kept(text), Form::Text)
        }
    }
}

fn kind(role: Role, text: &str) -> Kind {
    match role {
        Role::System | Role::Developer => Kind::System,
        Role::User if REMINDERS.iter().any(|tag| text.starts_with(tag)) => Kind::System,
        Role::User => Kind::Messages,
        Role::Assistant => Kind::Replies,
        Role::Tool => Kind::Results,
    }
}

/// Returns the name of the instruction file that a text of a program holds, if its beginning names one.
fn instruction_file(text: &str) -> Option<&str> {
    let is_the_programs = text.starts_with('<') || text.starts_with("# AGENTS.md instructions");
    if !is_the_programs {
        return None;
    }
    let words =
        beginning(text, LOOKED_AT).0.split(|c: char| c.is_whitespace() || "()<>\"'`,:".contains(c));
    let names = ["CLAUDE.md", "AGENTS.md", "GEMINI.md", "CLAUDE.local.md"];
    let mut words = words.filter(|word| names.contains(&file_name(word)));
    words.next().map(short_path)
}

fn title(text: &Text) -> String {
    let words = first_words(beginning(text.text.as_deref().unwrap_or_default(), LOOKED_AT).0);
    if words.is_empty() { "a text that is not kept".to_owned() } else { words }
}

fn kept(text: &Text) -> Option<Cow<'_, str>> {
    text.text.as_deref().map(Cow::Borrowed)
}

fn pretty(input: &str) -> (Cow<'_, str>, Form) {
    let parsed = serde_json::from_str::<Value>(input).ok();
    let pretty = parsed.and_then(|value| serde_json::to_string_pretty(&value).ok());
    pretty.map_or((Cow::Borrowed(input), Form::Text), |text| (Cow::Owned(text), Form::Json))
}
