//! What a user sends, as a message.

use std::path::{Path, PathBuf};

use convoke_core::diagnostic::Diagnostic;

use crate::diagnostics;
use crate::images;
use crate::item::{ContentItem, ResponseItem};
use convoke_files::{Files, absolute};

/// A part of what a user sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserInput {
    /// Text.
    Text(String),
    /// An image by its URL.
    Image(String),
    /// An image file.
    LocalImage(PathBuf),
}

/// Makes the message of a turn, its parts in the order in which they were given.
///
/// Relative paths are meant from `base`. An image that cannot be used becomes a text that says so.
pub fn message(
    files: &dyn Files,
    base: &Path,
    inputs: &[UserInput],
    diagnostics: &mut Vec<Diagnostic>,
) -> ResponseItem {
    let text = |it: &str| ContentItem::InputText(it.to_owned());
    let mut content = Vec::with_capacity(inputs.len());
    // Only files are numbered.
    let mut images = 0;
    for input in inputs {
        match input {
            UserInput::Text(it) => content.push(text(it)),
            UserInput::Image(url) => {
                let image = ContentItem::InputImage(url.clone());
                content.extend([text("<image>"), image, text("</image>")]);
            }
            UserInput::LocalImage(path) => {
                images += 1;
                match images::data_url(files, &absolute(base, path), path) {
                    Ok(url) => {
                        let open = format!("<image name=[Image #{images}]>");
                        let image = ContentItem::InputImage(url);
                        content.extend([text(&open), image, text("</image>")]);
                    }
                    Err(instead) => {
                        let unusable =
                            Diagnostic::new(diagnostics::IMAGE_UNUSABLE, instead.clone());
                        diagnostics.push(unusable.at_path(path.display().to_string()));
                        content.push(ContentItem::InputText(instead));
                    }
                }
            }
        }
    }
    ResponseItem::message("user", content)
}

/// Returns the texts among what a user sends.
pub fn texts(inputs: &[UserInput]) -> Vec<&str> {
    let texts = inputs.iter().filter_map(|input| match input {
        UserInput::Text(text) => Some(text.as_str()),
        UserInput::Image(_) | UserInput::LocalImage(_) => None,
    });
    texts.collect()
}
