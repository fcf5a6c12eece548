//! Numbers and columns in the output of commands.

pub use convoke_core::figures::{count, dollars, percent, seconds, thousands as number};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::terminal::printable;

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

/// Returns the beginning of a text on one line, at most `width` columns of it.
pub fn one_line(text: &str, width: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    begun(&printable(&words.join(" ")), width)
}

/// Returns a number of milliseconds as the age of something.
pub fn age(millis: i64) -> String {
    match millis / 1000 {
        ..60 => "just now".to_owned(),
        seconds @ 60..3600 => format!("{} min ago", seconds / 60),
        seconds @ 3600..86_400 => format!("{} h ago", seconds / 3600),
        seconds => format!("{} d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_use_the_largest_unit_that_fits() {
        let ages = [-5, 59, 60, 3599, 7200, 86_400 * 12].map(|seconds| age(seconds * 1000));
        assert_eq!(
            ages,
            ["just now", "just now", "1 min ago", "59 min ago", "2 h ago", "12 d ago"]
        );
    }

    #[test]
    fn long_texts_are_cut_to_their_columns() {
        assert_eq!(begun("short", 5), "short");
        assert_eq!(begun("longer", 5), "long…");
        assert_eq!(begun("漢字漢字", 5), "漢字…");
        assert_eq!(shortened("/home/kim/project", 9), "…/project");
        assert_eq!(one_line("two\n  lines", 80), "two lines");
    }

    #[test]
    fn a_difference_has_its_sign() {
        assert_eq!([signed(5, 2000), signed(2000, 5), signed(1, 1)], ["+1,995", "-1,995", "+0"]);
    }
}
