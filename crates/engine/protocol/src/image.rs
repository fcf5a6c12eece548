//! Images that a message shows. They are stored with the message, as its attached files are.

use convoke_core::{ConversationMessage, NewMessage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The field of a stored message that holds its images.
const FIELD: &str = "images";

/// The formats that models read, by the Base64 of the bytes that they begin with.
const FORMATS: [(&str, &str); 5] = [
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGODdh", "image/gif"),
    ("R0lGODlh", "image/gif"),
    ("UklGR", WEBP),
];
const WEBP: &str = "image/webp";
/// The mark of WebP within a file of several formats, and its place.
const WEBP_MARK: (usize, &str) = (12, "RUJQ");

/// The extensions of the names of image files.
const EXTENSIONS: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];

/// An image that a message shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// The path, as the person wrote it.
    pub path: String,
    /// The media type, for example `image/png`.
    pub media_type: String,
    /// The bytes, in Base64.
    pub data: String,
}

impl Image {
    /// Creates an image from its bytes in Base64; `None` if models do not read its format.
    pub fn new(path: impl Into<String>, data: impl Into<String>) -> Option<Self> {
        let data = data.into();
        let (_, media_type) = FORMATS.iter().find(|(start, _)| data.starts_with(start))?;
        let (at, mark) = WEBP_MARK;
        let is_webp = || data.get(at..).is_some_and(|rest| rest.starts_with(mark));
        if (*media_type == WEBP && !is_webp()) || !is_base64(&data) {
            return None;
        }
        Some(Self { path: path.into(), media_type: (*media_type).to_owned(), data })
    }

    /// Returns whether the name of a file says that it is an image.
    pub fn is_named_by(path: &str) -> bool {
        let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        extension.is_some_and(|extension| EXTENSIONS.contains(&&*extension))
    }

    /// Returns the images that a message shows. Skips invalid entries, which an imported session can contain.
    pub fn from_message<Id>(message: &ConversationMessage<Id>) -> Vec<Self> {
        let Some(Value::Array(list)) = message.extra.get(FIELD) else { return Vec::new() };
        list.iter().filter_map(|value| Self::deserialize(value).ok()).collect()
    }

    /// Adds images to a message that has none.
    pub fn add(images: Vec<Self>, message: &mut NewMessage) {
        let list = images.into_iter().map(|Self { path, media_type, data }| {
            let fields = [("path", path), ("mediaType", media_type), ("data", data)];
            let fields = fields.map(|(name, value)| (name.to_owned(), value.into()));
            Value::Object(fields.into_iter().collect())
        });
        let list: Vec<Value> = list.collect();
        if !list.is_empty() {
            message.extra.insert(FIELD.to_owned(), Value::Array(list));
        }
    }

    /// Returns the image as a data URL.
    pub fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.media_type, self.data)
    }

    /// Returns its size in bytes.
    pub fn bytes(&self) -> u64 {
        let padding = self.data.bytes().rev().take_while(|byte| *byte == b'=').count();
        (self.data.len() / 4 * 3).saturating_sub(padding) as u64
    }
}

/// Returns whether a text is Base64, with its padding.
fn is_base64(text: &str) -> bool {
    let unpadded = text.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    text.len().is_multiple_of(4)
        && text.len() - unpadded.len() <= 2
        && unpadded.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_its_first_bytes_and_its_size_is_that_of_the_file() {
        for (data, expected) in [
            ("iVBORw0KGgo=", Some(("image/png", 8))),
            ("/9j/4A==", Some(("image/jpeg", 4))),
            ("R0lGODlh", Some(("image/gif", 6))),
            ("UklGRgAAAABXRUJQVlA4IA==", Some(("image/webp", 16))),
            ("UklGRgAAAABXQVZFZm10IA==", None),
            ("PHN2Zy8+", None),
            ("iVBORw0KGgo", None),
            ("iVBORw0KGgo=\n", None),
            ("", None),
        ] {
            let image = Image::new("a", data);
            let found = image.as_ref().map(|it| (&*it.media_type, it.bytes()));
            assert_eq!(found, expected, "{data}");
        }
    }

    #[test]
    fn the_images_of_a_message_are_those_that_were_added() {
        let image = Image::new("p/a.png", "iVBORw0KGgo=").unwrap();
        let mut message = NewMessage::from_person("lin", "see p/a.png");
        assert_eq!(Image::from_message(&message), []);
        Image::add(vec![image.clone()], &mut message);
        assert_eq!(Image::from_message(&message), [image]);
        message.extra.insert(FIELD.to_owned(), serde_json::json!([{"path": "x"}, 7]));
        assert_eq!(Image::from_message(&message), []);
    }

    #[test]
    fn names_of_images_are_told_by_their_extension() {
        assert!(Image::is_named_by("a.PNG") && Image::is_named_by("dir/b.jpeg"));
        assert!(!Image::is_named_by("png") && !Image::is_named_by("a.svg"));
    }
}
