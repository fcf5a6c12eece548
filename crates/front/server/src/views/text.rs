//! Texts of conversations: escaped, with control and direction characters made visible.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use maud::{Markup, PreEscaped};

/// The maximum number of bytes of a text that are shown at once; the rest is loaded on request.
pub const SHOWN: usize = 32 << 10;

/// Returns a text. Control and direction characters are replaced by their names; white space is shown on request.
pub fn exact(text: &str, shows_white_space: bool) -> Markup {
    let mut html = String::with_capacity(text.len() + text.len() / 8);
    for character in text.chars() {
        match character {
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '&' => html.push_str("&amp;"),
            '"' => html.push_str("&quot;"),
            ' ' if shows_white_space => html.push_str("<i>·</i>"),
            '\t' if shows_white_space => html.push_str("<i>→</i>\t"),
            '\n' if shows_white_space => html.push_str("<i>↵</i>\n"),
            '\n' | '\t' => html.push(character),
            _ if acts(character) => {
                html.push_str("<b class=\"control\">");
                html.push_str(&control_name(character));
                html.push_str("</b>");
            }
            _ => html.push(character),
        }
    }
    PreEscaped(html)
}

/// Returns a text for an attribute, where nothing can be marked: control and direction characters are their names.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if acts(character) {
            plain.push_str(&control_name(character));
        } else {
            plain.push(character);
        }
    }
    plain
}

/// Returns whether a character is invisible or affects the text around it.
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn control_name(character: char) -> String {
    match u32::from(character) {
        code @ 0..0x20 => char::from_u32(0x2400 + code).unwrap_or('␀').to_string(),
        0x7f => '␡'.to_string(),
        code => format!("U+{code:04X}"),
    }
}

/// Returns a short text that is another one for other content.
pub(crate) fn version(content: &Markup) -> String {
    let mut hasher = DefaultHasher::new();
    content.0.hash(&mut hasher);
    format!("{:x}", hasher.finish())
}

/// Returns the beginning of a text that fits, and the number of bytes that follow it.
pub fn beginning(text: &str, limit: usize) -> (&str, usize) {
    let shown = &text[..text.floor_char_boundary(limit)];
    (shown, text.len() - shown.len())
}

/// Returns a range of a text, moved to the boundaries of characters.
pub fn slice(text: &str, from: usize, to: usize) -> &str {
    let from = text.floor_char_boundary(from.min(text.len()));
    let to = text.floor_char_boundary(to.clamp(from, text.len()));
    &text[from..to]
}

/// Returns a text of one line.
pub fn line(text: &str) -> Markup {
    exact(&text.split_whitespace().collect::<Vec<_>>().join(" "), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        let hostile = "</script><img src=x onerror=\"a\"> \u{1b}[2J \u{202e}txt \r\0";
        let shown = exact(hostile, false).into_string();
        assert_eq!(
            shown,
            "&lt;/script&gt;&lt;img src=x onerror=&quot;a&quot;&gt; <b class=\"control\">␛</b>[2J \
             <b class=\"control\">U+202E</b>txt <b class=\"control\">␍</b><b class=\"control\">␀</b>"
        );
    }

    #[test]
    fn white_space_is_shown_on_request() {
        assert_eq!(exact("a b\t\n", true).into_string(), "a<i>·</i>b<i>→</i>\t<i>↵</i>\n");
        assert_eq!(exact("a b\t\n", false).into_string(), "a b\t\n");
    }

    #[test]
    fn slices_keep_characters_whole() {
        assert_eq!(slice("äöü", 1, 3), "ä");
        assert_eq!(slice("äöü", 90, 3), "");
        assert_eq!(beginning("äöü", 3), ("ä", 4));
    }
}
