//! The head of a `SKILL.md`, and the description that it states.

use std::io;
use std::path::Path;

use convoke_core::whitespace::trim;
use convoke_files::{FileKind, Files};

use crate::front_matter::{FrontMatter, Yaml, split};

/// The bytes that are read of a file: far more than front matter has.
const HEAD: u64 = FileKind::FrontMatter.limit() * 2;

/// The head of a `SKILL.md`, and the size of the whole file.
#[derive(Debug)]
pub struct SkillText {
    /// The head.
    pub text: String,
    /// The bytes of the whole file.
    pub size: u64,
}

/// Reads the head of a file.
pub fn read(files: &dyn Files, path: &Path) -> io::Result<SkillText> {
    let head = files.read_head(path, HEAD)?;
    let text = String::from_utf8(head.bytes)
        .unwrap_or_else(|wrong| String::from_utf8_lossy(wrong.as_bytes()).into_owned());
    Ok(SkillText { text, size: head.size })
}

/// The description that a file states, whether or not an agent understands it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stated(pub String);

impl Stated {
    /// Reads the description as a person does: also of front matter that comes late, is not closed or is
    /// not valid YAML.
    pub fn leniently(text: &str) -> Self {
        let text = text.trim_start_matches(|it: char| it == '\u{feff}' || it.is_whitespace());
        let parsed = split(text).front.map(FrontMatter::read);
        let field = parsed.as_ref().and_then(|front| front.field("description"));
        let stated = match field {
            Some(Yaml::Text(text) | Yaml::Scalar(text)) => text.clone(),
            Some(Yaml::List(items)) => match items.first() {
                Some(Yaml::Text(text) | Yaml::Scalar(text)) => text.clone(),
                _ => String::new(),
            },
            None if text.starts_with("---") => {
                let lines = text.lines().skip(1).take_while(|line| line.trim_end() != "---");
                let values = lines.filter_map(|line| line.strip_prefix("description:"));
                values.last().unwrap_or_default().to_owned()
            }
            Some(Yaml::Map(_) | Yaml::Null) | None => String::new(),
        };
        Self(trim(&stated).to_owned())
    }
}

/// Returns how many bytes of a description, from its start on, arrive in a text. White space that was added,
/// removed or replaced does not count as a difference.
pub fn loaded_bytes(stated: &str, arrived: &str) -> u64 {
    let stated = trim(stated);
    if arrived.starts_with(stated) {
        return stated.len() as u64;
    }
    if stated.starts_with(arrived) {
        return arrived.len() as u64;
    }
    let mut arrived = arrived.chars().filter(|it| !is_blank(*it));
    let mut end = 0;
    for (at, character) in stated.char_indices().filter(|(_, it)| !is_blank(*it)) {
        if arrived.next() != Some(character) {
            return end as u64;
        }
        end = at + character.len_utf8();
    }
    end as u64
}

fn is_blank(character: char) -> bool {
    character.is_whitespace() || character.is_control()
}
