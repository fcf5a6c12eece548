//! Numbers and columns in the output of commands.

pub use convoke_core::figures::{count, dollars, percent, seconds, thousands as number};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Formats a difference with its sign: `+1,204`.
pub fn signed(before: u64, after: u64) -> String {
    if after >= before {
        format!("+{}", number(after - before))
    } else {
        format!("-{}", number(before - after))
    }
}

/// Fills a text up to a width.
pub fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// Shortens a text at its start: the end of a path is the most useful part.
pub fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let kept = text.char_indices().rev().take_while(|(_, character)| {
        used += character.width().unwrap_or_default();
        used <= width
    });
    let start = kept.last().map_or(text.len(), |(at, _)| at);
    format!("…{}", &text[start..])
}

/// Shortens a text at its end.
pub fn begun(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let kept = text.char_indices().take_while(|(_, character)| {
        used += character.width().unwrap_or_default();
        used <= width
    });
    let end = kept.last().map_or(0, |(at, character)| at + character.len_utf8());
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_its_sign() {
        assert_eq!([signed(5, 2000), signed(2000, 5), signed(1, 1)], ["+1,995", "-1,995", "+0"]);
    }
}
