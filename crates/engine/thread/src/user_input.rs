//! A user's input, converted to a message.

use std::path::{Path, PathBuf};

use convoke_core::diagnostic::Diagnostic;
use convoke_core::ledger::Source;
use convoke_core::{Fragment, SourcedText, TextWriter};

use crate::diagnostics;
use crate::history::{Entry, Origin, Section};
use crate::images;
use crate::item::{ContentItem, ResponseItem};
use convoke_files::{Files, absolute};

/// A part of a user's input.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserInput {
    /// Text.
    Text(String),
    /// Text assembled from fragments, with its ledger.
    Assembled(SourcedText<'static>),
    /// An image by its URL.
    Image(String),
    /// An image file.
    LocalImage(PathBuf),
}

/// An encoding of a prompt that Codex does not accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptEncoding {
    /// Neither UTF-8 nor marked as UTF-16.
    #[error("is not UTF-8 at byte {0}")]
    NotUtf8(usize),
    /// Marked as UTF-16, but invalid.
    #[error("is marked as UTF-16 but is invalid")]
    NotUtf16,
    /// Marked as UTF-32.
    #[error("is UTF-32: use UTF-8")]
    Utf32,
}

/// Decodes a prompt that was piped in: UTF-8, or UTF-16 with a byte order mark, which is removed.
///
/// # Errors
///
/// Returns the encoding that is not accepted.
pub fn decode_prompt(bytes: &[u8]) -> Result<String, PromptEncoding> {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let (pairs, rest) = bytes.as_chunks::<2>();
        let units: Vec<u16> = pairs.iter().copied().map(unit).collect();
        let text = String::from_utf16(&units).ok().filter(|_| rest.is_empty());
        text.ok_or(PromptEncoding::NotUtf16)
    };
    match bytes {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Err(PromptEncoding::Utf32),
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, text @ ..] | text => match std::str::from_utf8(text) {
            Ok(text) => Ok(text.to_owned()),
            Err(wrong) => {
                let mark = bytes.len() - text.len();
                Err(PromptEncoding::NotUtf8(wrong.valid_up_to() + mark))
            }
        },
    }
}

/// Creates the message of a turn, with its parts in the given order.
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
            UserInput::Text(it) => message.part(ContentItem::InputText(it.clone())),
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
    fn part(&mut self, part: ContentItem) {
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
        self.part(ContentItem::InputImage(url));
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

/// Returns the texts of a user's input.
pub fn texts(inputs: &[UserInput]) -> Vec<&str> {
    let texts = inputs.iter().filter_map(|input| match input {
        UserInput::Text(text) => Some(text.as_str()),
        UserInput::Assembled(text) => Some(text.text()),
        UserInput::Image(_) | UserInput::LocalImage(_) => None,
    });
    texts.collect()
}

#[cfg(test)]
mod decoding {
    use super::{PromptEncoding, decode_prompt};

    #[test]
    fn a_byte_order_mark_decides_the_encoding() {
        let cases: [(&[u8], Result<&str, PromptEncoding>); 8] = [
            (b"a\r\n", Ok("a\r\n")),
            (b"\xef\xbb\xbfa", Ok("a")),
            (b"\xff\xfea\0\x16\x4e", Ok("a\u{4e16}")),
            (b"\xfe\xff\0a", Ok("a")),
            (b"\xff\xfea", Err(PromptEncoding::NotUtf16)),
            (b"\xff\xfe\0\0a\0\0\0", Err(PromptEncoding::Utf32)),
            (b"a\xff", Err(PromptEncoding::NotUtf8(1))),
            (b"\xef\xbb\xbfa\xff", Err(PromptEncoding::NotUtf8(4))),
        ];
        for (bytes, expected) in cases {
            assert_eq!(decode_prompt(bytes), expected.map(str::to_owned), "{bytes:?}");
        }
    }
}
