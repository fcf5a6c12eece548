//! Texts as a handover holds them: without secrets, reminders and control characters, and quoted.

use convoke_redact::Redactor;

/// The largest text that is held whole. Of a larger one, the ends are held.
pub(super) const MAX_TEXT: usize = 256 << 10;

/// What begins every line of the history, so that none of its lines looks like one of Convoke's.
pub(super) const QUOTE: &str = "> ";
/// The line break before a quoted line.
pub(super) const QUOTED_LINE: &str = "\n> ";

const REMINDER: (&str, &str) = ("<system-reminder>", "</system-reminder>");

/// Returns a text that can be held, and the bytes that were cut from it. Secrets are removed before the cut, which could
/// split them.
pub(super) fn held(text: &str, redactor: &Redactor) -> (String, u64) {
    if text.len() <= MAX_TEXT {
        return (text.to_owned(), 0);
    }
    let clean = redactor.redact(text);
    let head = clean.floor_char_boundary(MAX_TEXT / 2);
    let tail = clean.ceil_char_boundary(clean.len().saturating_sub(MAX_TEXT / 2)).max(head);
    let cut = tail - head;
    if cut == 0 {
        return (clean.into_owned(), 0);
    }
    (format!("{}\n[… {cut} bytes cut]\n{}", &clean[..head], &clean[tail..]), cut as u64)
}

/// Returns a text without secrets, reminders of the program, and control characters.
pub(super) fn cleaned(text: &str, redactor: &Redactor) -> String {
    let text = redactor.redact(text);
    let text = without_reminders(&text);
    let mut clean = String::with_capacity(text.len());
    let mut characters = text.trim_start_matches(['\r', '\n']).trim_end().chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if characters.peek() == Some(&'\n') => {}
            // Other line breaks would begin a line without its quotation mark.
            '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => clean.push('\n'),
            '\n' | '\t' => clean.push(character),
            _ if character.is_control() => clean.push('\u{FFFD}'),
            _ => clean.push(character),
        }
    }
    clean
}

/// Returns a text as one line.
pub(super) fn one_line(text: &str, max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= max {
        return line;
    }
    line.chars().take(max).chain(['…']).collect()
}

/// Returns a text with every line quoted.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 64);
    for (index, line) in text.split('\n').enumerate() {
        quoted.push_str(if index == 0 { QUOTE } else { QUOTED_LINE });
        quoted.push_str(line);
    }
    quoted
}

fn without_reminders(text: &str) -> String {
    let (open, close) = REMINDER;
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(open) {
        // A reminder without an end is a text about reminders.
        let Some(end) = rest[start..].find(close) else { break };
        kept.push_str(&rest[..start]);
        rest = &rest[start + end + close.len()..];
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_break_begins_a_line_without_a_quotation_mark() {
        let text = "a\r\nb\rc\u{2028}d\u{85}e\u{b}f\n\n\u{1b}[31mg";
        let clean = quoted(&cleaned(text, &Redactor::default()));
        assert_eq!(clean, "> a\n> b\n> c\n> d\n> e\n> f\n> \n> \u{FFFD}[31mg");
    }

    #[test]
    fn reminders_stay_behind() {
        let redactor = Redactor::default();
        let text =
            "ok\n<system-reminder>\nBe brief.\n</system-reminder>\nmore <system-reminder> text";
        assert_eq!(cleaned(text, &redactor), "ok\n\nmore <system-reminder> text");
    }

    #[test]
    fn a_secret_at_the_cut_of_a_large_text_is_removed() {
        let redactor = Redactor::default().and_key("correct-horse-battery");
        let text = "a".repeat(MAX_TEXT / 2 - 8) + "correct-horse-battery" + &"b".repeat(MAX_TEXT);
        let (held, cut) = held(&text, &redactor);
        assert!(!held.contains("correct") && held.len() < MAX_TEXT + 64 && cut > 0);
    }
}
