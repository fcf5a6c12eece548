//! The input of a user, as a message.

use std::path::{Path, PathBuf};

use convoke_core::diagnostic::Diagnostic;
use convoke_core::ledger::Source;
use convoke_core::{Fragment, SourcedText, TextWriter};

use crate::diagnostics;
use crate::history::{Entry, Origin, Section};
use crate::images;
use crate::item::{ContentItem, ResponseItem};
use convoke_files::{Files, absolute};

/// A part of what a user sends.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserInput {
    /// Text.
    Text(String),
    /// Text that was assembled from fragments, with its ledger.
    Assembled(SourcedText<'static>),
    /// An image by its URL.
    Image(String),
    /// An image file.
    LocalImage(PathBuf),
}

/// Creates the message of a turn, with its parts in order.
///
/// Relative paths are resolved against `base`. An unusable image becomes a text with the reason.
pub fn message(
    files: &dyn Files,
    base: &Path,
    inputs: &[UserInput],
    diagnostics: &mut Vec<Diagnostic>,
) -> Entry {
    let mut message = MessageWriter::default();
    // Only files are numbered.
    let mut images = 0;
    for input in inputs {
        match input {
            UserInput::Text(it) => message.said(ContentItem::InputText(it.clone())),
            UserInput::Assembled(it) => message.assembled(it),
            UserInput::Image(url) => message.image("<image>", url.clone()),
            UserInput::LocalImage(path) => {
                images += 1;
                match images::data_url(files, &absolute(base, path), path) {
                    Ok(url) => message.image(&format!("<image name=[Image #{images}]>"), url),
                    Err(instead) => {
                        let unusable =
                            Diagnostic::new(diagnostics::IMAGE_UNUSABLE, instead.clone());
                        diagnostics.push(unusable.at_path(path.display().to_string()));
                        message.frame("note", &instead);
                    }
                }
            }
        }
    }
    message.finish()
}

/// Writes the parts of a message with their sources.
struct MessageWriter {
    content: Vec<ContentItem>,
    texts: TextWriter<'static>,
}

impl Default for MessageWriter {
    fn default() -> Self {
        Self { content: Vec::new(), texts: TextWriter::new(Section::User.name()) }
    }
}

impl MessageWriter {
    fn said(&mut self, part: ContentItem) {
        let source = Source::Message { id: None, index: None };
        self.texts.fragment(Fragment::new(part.text().to_owned(), source));
        self.content.push(part);
    }

    fn assembled(&mut self, text: &SourcedText<'static>) {
        self.texts.append(text);
        self.content.push(ContentItem::InputText(text.text().to_owned()));
    }

    fn image(&mut self, open: &str, url: String) {
        self.frame("image tag", open);
        self.said(ContentItem::InputImage(url));
        self.frame("image tag", "</image>");
    }

    fn frame(&mut self, what: &'static str, text: &str) {
        self.texts.frame(what, text);
        self.content.push(ContentItem::InputText(text.to_owned()));
    }

    fn finish(self) -> Entry {
        let (_, entries) = self.texts.finish().into_parts();
        let item = ResponseItem::message("user", self.content);
        Entry::new(item, Origin::Fragments(Section::User, entries.into()))
    }
}

/// Returns the texts among what a user sends.
pub fn texts(inputs: &[UserInput]) -> Vec<&str> {
    let texts = inputs.iter().filter_map(|input| match input {
        UserInput::Text(text) => Some(text.as_str()),
        UserInput::Assembled(text) => Some(text.text()),
        UserInput::Image(_) | UserInput::LocalImage(_) => None,
    });
    texts.collect()
}
