//! Git's configuration files, read as git reads them.

use std::iter::Peekable;
use std::str::CharIndices;

/// A setting of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSetting<'t> {
    /// The section, in lower case.
    pub section: String,
    /// The subsection, as it is written.
    pub subsection: Option<String>,
    /// The key, in lower case.
    pub key: String,
    /// The value without quotes, escapes and comments; empty for a key without a value, which git takes for true.
    pub value: String,
    /// The setting as it is written.
    pub written: &'t str,
}

/// A configuration file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GitSettings<'t> {
    /// The settings, in order.
    pub settings: Vec<GitSetting<'t>>,
    /// Every section with its subsection, whether it has settings or not.
    pub subsections: Vec<(String, String)>,
}

/// Reads a configuration file. What git refuses as an error is left out, line by line.
pub fn git_settings(text: &str) -> GitSettings<'_> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = GitSettings::default();
    let mut reader = Reader { text, rest: text.char_indices().peekable() };
    let (mut section, mut subsection) = (String::new(), None);
    while let Some((at, character)) = reader.rest.next() {
        match character {
            '#' | ';' => reader.skip_line(),
            '[' => {
                (section, subsection) = reader.header();
                if let Some(name) = &subsection {
                    found.subsections.push((section.clone(), name.clone()));
                }
            }
            _ if character.is_ascii_alphabetic() => {
                let (key, value) = reader.setting(character);
                let written = text[at..reader.position()].trim_end();
                let (section, subsection) = (section.clone(), subsection.clone());
                found.settings.push(GitSetting { section, subsection, key, value, written });
            }
            _ if character.is_whitespace() => {}
            _ => reader.skip_line(),
        }
    }
    found
}

struct Reader<'t> {
    text: &'t str,
    rest: Peekable<CharIndices<'t>>,
}

impl Reader<'_> {
    fn position(&mut self) -> usize {
        self.rest.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    fn skip_line(&mut self) {
        while self.rest.next_if(|(_, character)| *character != '\n').is_some() {}
    }

    /// Reads `section "sub\"section"]`, or the older `section.subsection]`.
    fn header(&mut self) -> (String, Option<String>) {
        let mut name = String::new();
        let mut quoted: Option<String> = None;
        while let Some((_, character)) = self.rest.next_if(|(_, character)| *character != '\n') {
            match character {
                ']' => break,
                '"' => quoted = Some(self.quoted_name()),
                _ => name.push(character),
            }
        }
        let name = name.trim().to_ascii_lowercase();
        match (quoted, name.split_once('.')) {
            (Some(quoted), _) => (name, Some(quoted)),
            (None, Some((section, below))) => (section.to_owned(), Some(below.to_owned())),
            (None, None) => (name, None),
        }
    }

    /// Reads the rest of a quoted subsection. In its name, a backslash stands for the character after it.
    fn quoted_name(&mut self) -> String {
        let mut name = String::new();
        while let Some((_, character)) = self.rest.next_if(|(_, character)| *character != '\n') {
            match character {
                '"' => break,
                '\\' => name.extend(self.rest.next().map(|(_, escaped)| escaped)),
                _ => name.push(character),
            }
        }
        name
    }

    /// Reads a key that begins with a letter, and its value.
    fn setting(&mut self, first: char) -> (String, String) {
        let mut key = String::from(first.to_ascii_lowercase());
        let is_part = |character: char| character.is_ascii_alphanumeric() || character == '-';
        while let Some((_, character)) = self.rest.next_if(|(_, it)| is_part(*it)) {
            key.push(character.to_ascii_lowercase());
        }
        while self.rest.next_if(|(_, it)| matches!(it, ' ' | '\t')).is_some() {}
        let has_value = self.rest.next_if(|(_, character)| *character == '=').is_some();
        let value = if has_value { self.value() } else { String::new() };
        (key, value)
    }

    /// Reads a value to the end of its line. White space around it does not count, except in quotes.
    fn value(&mut self) -> String {
        let mut value = String::new();
        let mut pending = String::new();
        let mut is_quoted = false;
        while let Some((_, character)) = self.rest.next() {
            match character {
                '\n' => break,
                '#' | ';' if !is_quoted => {
                    self.skip_line();
                    break;
                }
                '"' => {
                    is_quoted = !is_quoted;
                    value.push_str(&std::mem::take(&mut pending));
                }
                '\\' => {
                    value.push_str(&std::mem::take(&mut pending));
                    self.rest.next_if(|(_, character)| *character == '\r');
                    match self.rest.next().map(|(_, escaped)| escaped) {
                        // The value goes on in the next line.
                        Some('\n') | None => {}
                        Some('t') => value.push('\t'),
                        Some('n') => value.push('\n'),
                        Some('b') => value.push('\u{8}'),
                        Some(escaped) => value.push(escaped),
                    }
                }
                _ if character.is_whitespace() && !is_quoted => {
                    if !value.is_empty() {
                        pending.push(character);
                    }
                }
                _ => {
                    value.push_str(&std::mem::take(&mut pending));
                    value.push(character);
                }
            }
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let settings = git_settings(text).settings.into_iter();
        let shown = settings.map(|GitSetting { section, subsection, key, value, .. }| {
            let subsection = subsection.map_or_else(String::new, |name| format!("{name}."));
            format!("{section}.{subsection}{key}={value}")
        });
        shown.collect()
    }

    const TEXTS: [(&str, &[&str]); 14] = [
        ("[core]\n\tfsmonitor = /x\n", &["core.fsmonitor=/x"]),
        ("[include] path = more # c\n", &["include.path=more"]),
        ("[include] path = mo\"re\"\n", &["include.path=more"]),
        ("[include] path = e~f\n", &["include.path=e~f"]),
        ("[include]\npath = a\\\nb\n", &["include.path=ab"]),
        ("[a]\nk = \" x ; y \" z ; c\n", &["a.k= x ; y  z"]),
        ("[a]\nk = a\\tb\\\"c\n", &["a.k=a\tb\"c"]),
        ("[A \"B.\\\"c\"]K\n", &["a.B.\"c.k="]),
        ("[a.B] k=1\n", &["a.b.k=1"]),
        ("# [a]\n; k = 1\n[b] # k\nk = 2\n", &["b.k=2"]),
        ("[a] k = 1\r\n[b]\r\nk = 2\r\n", &["a.k=1", "b.k=2"]),
        ("\u{feff}[a]k=1", &["a.k=1"]),
        ("[a]\nk = \\\\x\n", &["a.k=\\x"]),
        ("[a \"b\"]\n[c]\n", &[]),
    ];

    #[test]
    fn settings_are_read_as_git_reads_them() {
        for (text, expected) in TEXTS {
            assert_eq!(shown(text), expected, "{text:?}");
        }
        let names = git_settings("[a \"b\"]\n[c]\n").subsections;
        assert_eq!(names, [("a".to_owned(), "b".to_owned())]);
        assert_eq!(git_settings("[a]\n k = \"x\" # y\n").settings[0].written, "k = \"x\" # y");
    }

    /// Git prints the settings that the table expects.
    #[test]
    fn the_table_is_true_of_git() {
        for (text, expected) in TEXTS {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("config");
            std::fs::write(&file, text).unwrap();
            let output = std::process::Command::new("git")
                .args(["config", "--list", "-z", "--no-includes", "--file"])
                .arg(&file)
                .output()
                .unwrap();
            let printed = String::from_utf8(output.stdout).unwrap();
            let printed: Vec<String> = printed
                .split_terminator('\0')
                .map(|entry| {
                    entry.split_once('\n').map_or_else(
                        || format!("{entry}="),
                        |(name, value)| format!("{name}={value}"),
                    )
                })
                .collect();
            assert_eq!(printed, expected, "{text:?}");
        }
    }
}
