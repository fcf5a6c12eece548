//! How figures and texts look on a terminal.

use std::io::IsTerminal;

/// Whether output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// It is.
    On,
    /// It is not: nobody looks, or they asked for none.
    Off,
}

impl Colour {
    /// Returns what fits the standard output of this process.
    pub fn of_stdout() -> Self {
        let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if std::io::stdout().is_terminal() && !is_unwanted {
            Self::On
        } else {
            Self::Off
        }
    }

    /// Returns the text in bold.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Returns the text dimmed.
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// Returns the text as something good, or the user's own.
    pub fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Returns the text as something to look at.
    pub fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// Returns the text as something bad.
    pub fn red(self, text: &str) -> String {
        self.wrap("31", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        match self {
            Self::On if !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            Self::On | Self::Off => text.to_owned(),
        }
    }
}

/// Returns a number with its thousands apart: `76,938`.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a difference with its sign: `+1,204`.
pub fn signed(before: u64, after: u64) -> String {
    if after >= before {
        format!("+{}", number(after - before))
    } else {
        format!("-{}", number(before - after))
    }
}

/// Returns a share in percent, with one digit after the point; a little is not nothing, and almost
/// all is not all.
pub fn percent(part: u64, whole: u64) -> String {
    let tenths = (part * 1000 + whole / 2).checked_div(whole).unwrap_or(0);
    match tenths {
        0 if part > 0 => "<0.1 %".to_owned(),
        1000 if part < whole => ">99.9 %".to_owned(),
        tenths => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

/// Returns a bar that is `width` characters long when the part is the whole, in eighths.
pub fn bar(part: u64, whole: u64, width: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part * width * 8 + whole / 2)
        .checked_div(whole)
        .unwrap_or(0);
    let full = usize::try_from(eighths / 8).unwrap_or(0);
    let rest = usize::try_from(eighths % 8).unwrap_or(0);
    // What is there at all is to be seen.
    let rest = if part > 0 {
        EIGHTHS[rest.max(usize::from(full == 0))]
    } else {
        ""
    };
    format!("{}{rest}", "█".repeat(full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_easy_to_read() {
        assert_eq!(
            [0, 999, 1000, 76938, 1_234_567].map(number),
            ["0", "999", "1,000", "76,938", "1,234,567"]
        );
        assert_eq!(
            [(1, 3), (0, 0), (5, 5), (1, 9999), (9998, 9999)]
                .map(|(part, whole)| percent(part, whole)),
            ["33.3 %", "0.0 %", "100.0 %", "<0.1 %", ">99.9 %"]
        );
        assert_eq!(
            [signed(5, 2000), signed(2000, 5), signed(1, 1)],
            ["+1,995", "-1,995", "+0"]
        );
    }

    #[test]
    fn a_bar_shows_even_the_smallest_part() {
        let bars = [0, 1, 500, 563, 1000].map(|part| bar(part, 1000, 8));
        assert_eq!(bars, ["", "▏", "████", "████▌", "████████"]);
    }
}
