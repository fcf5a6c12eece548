//! Simple highlighting of code: comments, strings and keywords, one line at a time.

use super::styled::{Face, StyledText, Tint};

/// The comment syntax and keywords of a family of languages.
#[derive(Debug)]
struct Language {
    names: &'static [&'static str],
    comment: &'static str,
    quotes: &'static [char],
    keywords: &'static [&'static str],
}

const BRACES: Language = Language {
    names: &[
        "rust",
        "rs",
        "c",
        "h",
        "cpp",
        "c++",
        "cc",
        "cs",
        "csharp",
        "go",
        "java",
        "kotlin",
        "kt",
        "swift",
        "javascript",
        "js",
        "jsx",
        "typescript",
        "ts",
        "tsx",
        "php",
        "scala",
        "dart",
        "zig",
    ],
    comment: "//",
    quotes: &['"', '`'],
    keywords: &[
        "abstract",
        "as",
        "async",
        "await",
        "break",
        "case",
        "catch",
        "class",
        "const",
        "continue",
        "default",
        "defer",
        "do",
        "else",
        "enum",
        "export",
        "extends",
        "false",
        "final",
        "fn",
        "for",
        "func",
        "function",
        "if",
        "impl",
        "implements",
        "import",
        "in",
        "interface",
        "let",
        "loop",
        "match",
        "mod",
        "mut",
        "namespace",
        "new",
        "nil",
        "null",
        "package",
        "private",
        "protected",
        "pub",
        "public",
        "return",
        "self",
        "static",
        "struct",
        "switch",
        "this",
        "throw",
        "trait",
        "true",
        "try",
        "type",
        "typedef",
        "use",
        "var",
        "void",
        "where",
        "while",
        "yield",
    ],
};

const HASHES: Language = Language {
    names: &[
        "python",
        "py",
        "ruby",
        "rb",
        "sh",
        "bash",
        "zsh",
        "shell",
        "console",
        "fish",
        "perl",
        "r",
        "toml",
        "yaml",
        "yml",
        "ini",
        "make",
        "makefile",
        "dockerfile",
        "nix",
        "elixir",
        "julia",
    ],
    comment: "#",
    quotes: &['"', '\''],
    keywords: &[
        "and", "as", "async", "await", "break", "case", "class", "continue", "def", "del", "do",
        "done", "elif", "else", "end", "esac", "except", "export", "False", "false", "fi",
        "finally", "for", "from", "function", "global", "if", "import", "in", "is", "lambda",
        "local", "module", "None", "nonlocal", "not", "or", "pass", "raise", "require", "return",
        "self", "then", "True", "true", "try", "unless", "until", "while", "with", "yield",
    ],
};

const DASHES: Language = Language {
    names: &["sql", "lua", "haskell", "hs", "elm", "ada"],
    comment: "--",
    quotes: &['"', '\''],
    keywords: &[
        "and", "as", "begin", "by", "case", "create", "delete", "do", "drop", "else", "end",
        "false", "for", "from", "function", "group", "if", "in", "insert", "into", "join", "let",
        "limit", "local", "module", "nil", "not", "null", "on", "or", "order", "return", "select",
        "set", "table", "then", "true", "update", "values", "where", "while",
    ],
};

const PLAIN: Language = Language { names: &[], comment: "", quotes: &[], keywords: &[] };

/// Returns a line of code with faces. O(line).
pub(super) fn highlight(language: &str, line: &str) -> StyledText {
    let mut styled = StyledText::default();
    if matches!(language, "diff" | "patch") {
        let tint = match line.as_bytes().first() {
            Some(b'+') => Tint::Added,
            Some(b'-') => Tint::Removed,
            Some(b'@') => Tint::Comment,
            _ => Tint::Code,
        };
        styled.push(line, Face::new(tint));
        return styled;
    }
    let known = [&BRACES, &HASHES, &DASHES].into_iter();
    let language = known.into_iter().find(|it| it.names.contains(&language)).unwrap_or(&PLAIN);
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let (tint, end) = token(language, rest, first);
        let (piece, after) = rest.split_at(end);
        styled.push(piece, Face::new(tint));
        rest = after;
    }
    styled
}

/// Returns the kind and the length of the first token.
fn token(language: &Language, rest: &str, first: char) -> (Tint, usize) {
    if !language.comment.is_empty() && rest.starts_with(language.comment) {
        return (Tint::Comment, rest.len());
    }
    if language.quotes.contains(&first) {
        let mut is_escaped = false;
        let closing = rest.char_indices().skip(1).find(|&(_, c)| {
            let closes = c == first && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            closes
        });
        return (Tint::Quoted, closing.map_or(rest.len(), |(at, c)| at + c.len_utf8()));
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    if is_word(first) {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        let is_keyword = language.keywords.contains(&word)
            || language.comment == DASHES.comment
                && language.keywords.iter().any(|keyword| keyword.eq_ignore_ascii_case(word));
        return (if is_keyword { Tint::Keyword } else { Tint::Code }, end);
    }
    (Tint::Code, first.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tinted(language: &str, line: &str) -> Vec<(String, Tint)> {
        let styled = highlight(language, line);
        assert_eq!(styled.text, line, "no character is lost");
        styled
            .pieces()
            .filter(|(_, face)| face.tint != Tint::Code)
            .map(|(piece, face)| (piece.to_owned(), face.tint))
            .collect()
    }

    #[test]
    fn comments_strings_and_keywords_are_highlighted() {
        let piece = |text: &str, tint| (text.to_owned(), tint);
        assert_eq!(
            tinted("rust", r#"let x = "a \" // b"; // c"#),
            [
                piece("let", Tint::Keyword),
                piece(r#""a \" // b""#, Tint::Quoted),
                piece("// c", Tint::Comment)
            ]
        );
        assert_eq!(
            tinted("py", "return 'x' # y"),
            [
                piece("return", Tint::Keyword),
                piece("'x'", Tint::Quoted),
                piece("# y", Tint::Comment)
            ]
        );
        assert_eq!(tinted("sql", "SELECT 1"), [piece("SELECT", Tint::Keyword)]);
        assert_eq!(tinted("diff", "-old"), [piece("-old", Tint::Removed)]);
        assert_eq!(tinted("unheard-of", "let \"x\" # y"), []);
        assert_eq!(tinted("rust", "\"no end"), [piece("\"no end", Tint::Quoted)]);
    }
}
