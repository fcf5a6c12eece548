//! `.env` files: the names of the variables that one could set, and their values.

/// Returns every name that a `.env` could set: the word at the beginning of a line or after `export`, before
/// `=` or `:`. The program may find fewer, because some are part of values. Withholding additional names is
/// harmless.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(['=', ':']).filter_map(|(at, _)| {
        // White space may contain line breaks here. The search ends at the previous sign, so each character is
        // read at most a few times, however many signs a line has.
        let before = text[..at].trim_end_matches(is_space);
        let rest = before.trim_end_matches(is_name);
        let name = &before[rest.len()..];
        let rest = rest.trim_end_matches(is_space_in_line);
        let begins_line = |rest: &str| rest.is_empty() || rest.ends_with(LINE_ENDS);
        let exported = rest.strip_suffix("export").map(|it| it.trim_end_matches(is_space_in_line));
        let is_set = begins_line(rest) || exported.is_some_and(begins_line);
        (!name.is_empty() && is_set).then_some(name)
    })
}

/// Returns the value of a variable as `dotenv` reads it: of several, the last; without quotation marks, up to a `#`.
pub fn value(text: &str, name: &str) -> Option<String> {
    text.split(LINE_ENDS).rev().find_map(|line| {
        let line = line.trim_start_matches(is_space);
        let line = line.strip_prefix("export").map_or(line, |rest| match rest.trim_start() {
            exported if exported.len() < rest.len() => exported,
            _ => line,
        });
        let rest = line.strip_prefix(name)?;
        let spaceless = rest.trim_start();
        let value = spaceless.strip_prefix('=').or_else(|| rest.strip_prefix(": "))?.trim();
        let quoted = ['"', '\'', '`'].into_iter().find_map(|mark| {
            let (inner, _) = value.strip_prefix(mark)?.split_once(mark)?;
            Some(inner)
        });
        Some(
            quoted.unwrap_or_else(|| value.split('#').next().unwrap_or_default().trim()).to_owned(),
        )
    })
}

const LINE_ENDS: [char; 4] = ['\n', '\r', '\u{2028}', '\u{2029}'];

fn is_name(c: char) -> bool {
    #[cfg(test)]
    tests::LOOKED_AT.with(|count| count.set(count.get() + 1));
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

fn is_space_in_line(c: char) -> bool {
    is_space(c) && !LINE_ENDS.contains(&c)
}

/// Returns whether the program treats a character as white space.
fn is_space(c: char) -> bool {
    #[cfg(test)]
    tests::LOOKED_AT.with(|count| count.set(count.get() + 1));
    c.is_whitespace() || c == '\u{feff}'
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// The number of characters read by this thread.
        pub(super) static LOOKED_AT: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn a_value_is_read_as_the_program_reads_it() {
        let text =
            "# A=0\nA=1\n export A = \"http://x/#y\" # z\nAB=2\nB='q'\nC=v # w\nexportD=3\nE: 4\n";
        let found = |name| value(text, name);
        assert_eq!(found("A").as_deref(), Some("http://x/#y"));
        assert_eq!(found("B").as_deref(), Some("q"));
        assert_eq!(found("C").as_deref(), Some("v"));
        assert_eq!((found("D"), found("E").as_deref()), (None, Some("4")));
    }

    #[test]
    fn every_character_is_looked_at_a_few_times_however_many_signs_there_are() {
        for piece in
            ["a=", "a =", "a = ", "=", " =", "export a=", "export ", "a", " ", "a\n=", ": "]
        {
            let text = piece.repeat((64 << 10) / piece.len());
            LOOKED_AT.set(0);
            names(&text).for_each(drop);
            let looked_at = LOOKED_AT.get();
            assert!(looked_at <= 6 * text.len(), "{piece:?}: {looked_at}");
        }
    }

    #[test]
    fn every_name_that_could_be_set_is_found() {
        for (text, expected) in [
            ("A=1\nexport B = 2\n", vec!["A", "B"]),
            ("\u{feff}A: 1\r  C.d-e=x", vec!["A", "C.d-e"]),
            ("A\u{feff}\n=1", vec!["A"]),
            ("X=\"one\nY=two\"\u{2028}Z=3", vec!["X", "Y", "Z"]),
            ("URL=http://h?a=b # and c=d", vec!["URL"]),
            ("# A=1\n\n  # B: 2\nwords alone", vec![]),
            ("=1\né=2", vec![]),
            ("myexport A=1\nexport\tB=2\nA B=1\n export  C:3", vec!["B", "C"]),
        ] {
            assert_eq!(names(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
