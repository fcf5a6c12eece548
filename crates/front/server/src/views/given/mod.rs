//! What a model was given, part by part: one view for prompts, for stored requests and for those of other programs.
//!
//! A picture, a list and the text itself show the same parts. A part has one number in all three, which is its place in the
//! ledger, so that a choice in one of them is a choice in all.

mod map;
mod of_ledger;
mod of_window;
mod picture;
mod text;

use std::borrow::Cow;

use maud::{Markup, html};

pub(crate) use self::map::{list, rows};
pub(crate) use self::of_ledger::{of_body, of_turn};
pub(crate) use self::of_window::of_request;
pub(crate) use self::text::{chunk, sections};
use super::text::{exact, line};

/// The maximum number of parts in a chunk of the text, and of the list.
pub(crate) const CHUNK: usize = 40;

/// What a part is, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Instructions of a program or of a team.
    System,
    /// The descriptions of tools.
    Tools,
    /// Files of instructions, and files that were attached.
    Files,
    /// What people and other members said.
    Messages,
    /// What the model said and called.
    Replies,
    /// What tools returned.
    Results,
    /// What holds the other parts together: headers, separators, the JSON of a request.
    Frame,
    /// What a provider counted and no file has.
    Unknown,
}

impl Kind {
    /// Every kind, in the order of legends.
    pub(crate) const ALL: [Self; 8] = [
        Self::System,
        Self::Tools,
        Self::Files,
        Self::Messages,
        Self::Replies,
        Self::Results,
        Self::Frame,
        Self::Unknown,
    ];

    /// Returns the class of its colour.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::System => "k-system",
            Self::Tools => "k-tools",
            Self::Files => "k-files",
            Self::Messages => "k-messages",
            Self::Replies => "k-replies",
            Self::Results => "k-results",
            Self::Frame => "k-frame",
            Self::Unknown => "k-unknown",
        }
    }

    /// Returns the name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Tools => "tools",
            Self::Files => "files",
            Self::Messages => "messages",
            Self::Replies => "replies",
            Self::Results => "tool results",
            Self::Frame => "frame",
            Self::Unknown => "not in the files",
        }
    }
}

/// The form of a part's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    /// JSON, one value for each line.
    Json,
}

/// One part.
#[derive(Debug, Clone)]
pub(crate) struct Part<'p> {
    /// The place in the ledger.
    pub index: usize,
    pub kind: Kind,
    /// The section of a prompt, or the role and number of a message.
    pub section: String,
    /// What distinguishes the part: the name of a tool or a file, the number of a message.
    pub label: String,
    /// Where it comes from.
    pub source: String,
    /// The rule that was applied, or how its source is known.
    pub rule: String,
    pub bytes: u64,
    /// The tokens, estimated.
    pub tokens: u64,
    /// The bytes of the source that were not sent.
    pub left_out: u64,
    /// The text; `None` if it is not kept.
    pub text: Option<Cow<'p, str>>,
    pub form: Form,
}

/// Everything that a model was given in one text.
#[derive(Debug, Clone)]
pub(crate) struct Given<'g> {
    pub parts: Vec<Part<'g>>,
    /// The address below `/api`, without a query.
    pub path: String,
    /// The query of that address, with its `?`, or nothing.
    pub query: String,
}

impl Given<'_> {
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    pub(crate) fn tokens(&self) -> u64 {
        self.parts.iter().map(|part| part.tokens).sum()
    }

    /// Returns the parts that have content, in the order of the text.
    pub(crate) fn content(&self) -> impl Iterator<Item = &Part<'_>> {
        self.parts.iter().filter(|part| part.kind != Kind::Frame)
    }

    /// Returns the parts that hold the others together.
    pub(crate) fn frame(&self) -> impl Iterator<Item = &Part<'_>> {
        self.parts.iter().filter(|part| part.kind == Kind::Frame)
    }

    /// Returns the address of something of it below `/api`.
    pub(crate) fn address(&self, what: &str, more: &str) -> String {
        let Self { path, query, .. } = self;
        let mark = match (query.is_empty(), more.is_empty()) {
            (_, true) => "",
            (true, false) => "?",
            (false, false) => "&",
        };
        format!("{path}/{what}{query}{mark}{more}")
    }

    /// Returns the parts whose text has the words, and how often, ignoring case.
    pub(crate) fn find(&self, words: &str) -> Vec<(usize, usize)> {
        let words = words.to_lowercase();
        if words.trim().is_empty() {
            return Vec::new();
        }
        let times = |part: &Part<'_>| {
            let text = part.text.as_deref().unwrap_or_default().to_lowercase();
            let in_label = usize::from(part.label.to_lowercase().contains(&words));
            text.matches(&words).count().max(in_label)
        };
        let found = self.content().map(|part| (part.index, times(part)));
        found.filter(|(_, times)| *times > 0).collect()
    }
}

/// Renders a text that a model was given: map and text side by side. `tools` are further controls of the text.
pub(crate) fn view(given: &Given<'_>, tools: &Markup, exact_text: Option<&Markup>) -> Markup {
    html! {
        div.given data-given=(given.path) data-query=(given.query) {
            section.map aria-label="Parts" {
                (picture::treemap(given))
                (picture::legend(given))
                (list(given))
            }
            section.text aria-label="The text" {
                div.toolbar {
                    form.find role="search" data-find=(given.address("find", "")) {
                        input type="search" name="q" placeholder="Search in this text" aria-label="Search in this text" autocomplete="off";
                        span.found-count role="status" {}
                        button.quiet type="button" data-step="-1" aria-label="Previous match" { "↑" }
                        button.quiet type="button" data-step="1" aria-label="Next match" { "↓" }
                    }
                    (tools)
                }
                div.scroller tabindex="0" role="region" aria-label="The text by parts" {
                    @match exact_text { Some(exact) => (exact), None => (sections(given)) }
                }
            }
        }
    }
}

/// Renders a text for a document, which loads nothing: every part is in it, whole. Its ids begin with `prefix`.
pub(crate) fn whole(given: &Given<'_>, prefix: &str) -> Markup {
    html! {
        div.given.document {
            section.map aria-label="Parts" {
                (picture::treemap(given))
                (picture::legend(given))
                (map::links(given, prefix))
            }
            section.text aria-label="The text" { (text::whole(given, prefix)) }
        }
    }
}

/// Renders a label, which may hold anything that a program has written.
fn label(text: &str) -> Markup {
    line(text)
}

/// Returns a text for people: white space is not shown.
fn shown(text: &str) -> Markup {
    exact(text, false)
}

/// Returns the last name of a path.
fn file_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// Returns the last name of a path with its directory, which distinguishes files of one name.
fn short_path(path: &str) -> &str {
    let directory = path.rfind('/').and_then(|end| path[..end].rfind('/'));
    directory.map_or(path, |end| &path[end + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_content_only() {
        let part = |index, kind, text: &'static str| Part {
            index,
            kind,
            section: String::new(),
            label: "Bash".to_owned(),
            source: String::new(),
            rule: String::new(),
            bytes: text.len() as u64,
            tokens: 1,
            left_out: 0,
            text: Some(Cow::Borrowed(text)),
            form: Form::Text,
        };
        let parts = vec![
            part(0, Kind::Frame, "role: user"),
            part(1, Kind::Messages, "A user, and another User"),
            part(2, Kind::Tools, "nothing"),
        ];
        let given = Given { parts, path: "/p".to_owned(), query: "?a=1".to_owned() };
        assert_eq!(given.find("user"), [(1, 2)]);
        assert_eq!(given.find("bash"), [(1, 1), (2, 1)]);
        assert_eq!(given.find("  "), []);
        assert_eq!(given.address("find", "q=x"), "/p/find?a=1&q=x");
    }
}
