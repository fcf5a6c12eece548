//! Code with colours: words, texts, numbers and comments of the languages that agents write most.
//!
//! A line is coloured by itself, so that a line of a diff is coloured as one of a file.

use maud::{Markup, PreEscaped};

use super::text::exact;

/// What the colouring of a language needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Language {
    names: &'static [&'static str],
    /// How a comment to the end of the line begins.
    comments: &'static [&'static str],
    /// The characters that begin and end a text.
    quotes: &'static str,
    words: &'static str,
    /// Whether words are written in any case.
    is_caseless: bool,
}

const C_WORDS: &str = "auto break case char class const constexpr continue default delete do double else enum explicit extern \
    false float for friend goto if inline int long namespace new nullptr operator private protected public register return \
    short signed sizeof static struct switch template this throw true try typedef typename union unsigned using virtual void \
    volatile while";
const SCRIPT_WORDS: &str = "abstract as async await break case catch class const constructor continue debugger declare default \
    delete do else enum export extends false finally for from function get if implements import in infer instanceof interface \
    is keyof let namespace new null of override private protected public readonly return satisfies set static super switch this \
    throw true try type typeof undefined unique var void while with yield";

const fn language(
    names: &'static [&'static str],
    comments: &'static [&'static str],
    quotes: &'static str,
    words: &'static str,
) -> Language {
    Language { names, comments, quotes, words, is_caseless: false }
}

/// The languages, with the endings of their files and the words after a fence.
const LANGUAGES: [Language; 20] = [
    language(
        &["rs", "rust"],
        &["//"],
        "\"",
        "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref \
         return self Self static struct super trait true type unsafe use where while",
    ),
    language(&["js", "mjs", "cjs", "jsx", "javascript"], &["//"], "\"'`", SCRIPT_WORDS),
    language(&["ts", "tsx", "mts", "typescript"], &["//"], "\"'`", SCRIPT_WORDS),
    language(
        &["py", "python"],
        &["#"],
        "\"'",
        "and as assert async await break class continue def del elif else except False finally for from global if import in is \
         lambda match None nonlocal not or pass raise return self True try while with yield",
    ),
    language(
        &["go"],
        &["//"],
        "\"'`",
        "break case chan const continue default defer else fallthrough false for func go goto if import interface map nil package \
         range return select struct switch true type var",
    ),
    language(
        &["java"],
        &["//"],
        "\"'",
        "abstract assert boolean break byte case catch char class const continue default do double else enum extends false final \
         finally float for if implements import instanceof int interface long native new null package private protected public \
         record return short static super switch synchronized this throw throws true try var void volatile while",
    ),
    language(
        &["kt", "kts", "kotlin"],
        &["//"],
        "\"'",
        "as break by class companion const continue data do else enum false for fun if import in init interface internal is lateinit \
         null object open override package private protected public return sealed super suspend this throw true try typealias val \
         var when while",
    ),
    language(
        &["swift"],
        &["//"],
        "\"",
        "actor as associatedtype async await break case catch class continue default defer do else enum extension false for func \
         guard if import in init inout internal is let nil open operator override private protocol public repeat return self static \
         struct super switch throw throws true try typealias var where while",
    ),
    language(&["c", "h", "cc", "cpp", "cxx", "hpp", "c++"], &["//"], "\"'", C_WORDS),
    language(
        &["cs", "csharp"],
        &["//"],
        "\"'",
        "abstract as async await base bool break case catch class const continue default delegate do double else enum event false \
         finally for foreach get if in int interface internal is lock namespace new null object out override params private \
         protected public readonly record ref return sealed set static string struct switch this throw true try using var virtual \
         void while yield",
    ),
    language(
        &["rb", "ruby"],
        &["#"],
        "\"'",
        "alias and begin break case class def do else elsif end ensure false for if in module next nil not or redo require rescue \
         retry return self super then true undef unless until when while yield",
    ),
    language(
        &["php"],
        &["//", "#"],
        "\"'",
        "abstract and array as break case catch class const continue default do echo else elseif extends false final finally fn for \
         foreach function global if implements include interface match namespace new null or private protected public readonly \
         require return static switch this throw trait true try use var while",
    ),
    language(
        &["sh", "bash", "zsh", "shell", "console"],
        &["#"],
        "\"'",
        "case do done elif else esac exit export fi for function if in local readonly return set shift source then trap unset until \
         while",
    ),
    Language {
        is_caseless: true,
        ..language(
            &["sql"],
            &["--"],
            "'",
            "add all alter and as asc begin between by cascade case check column commit constraint create default delete desc distinct \
             drop else end exists foreign from full group having if in index inner insert into is join key left like limit not null \
             on or order outer primary references replace returning right rollback select set table then union unique update using \
             values view when where with",
        )
    },
    language(&["json", "jsonl", "jsonc"], &["//"], "\"", "true false null"),
    language(&["toml"], &["#"], "\"'", "true false"),
    language(&["yaml", "yml"], &["#"], "\"'", "true false null yes no"),
    language(&["html", "xml", "svg"], &[], "\"'", ""),
    language(
        &["css", "scss"],
        &[],
        "\"'",
        "important media supports import layer container keyframes",
    ),
    language(
        &["lua"],
        &["--"],
        "\"'",
        "and break do else elseif end false for function goto if in local nil not or repeat return then true until while",
    ),
];

impl Language {
    /// Returns the language with a name, or of files with an ending.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        LANGUAGES.into_iter().find(|language| language.names.contains(&&*name))
    }

    /// Returns the language of a file.
    pub(crate) fn of_file(path: &str) -> Option<Self> {
        Self::named(path.rsplit_once('.')?.1)
    }

    fn has(&self, word: &str) -> bool {
        self.words.split_whitespace().any(|known| {
            if self.is_caseless { known.eq_ignore_ascii_case(word) } else { known == word }
        })
    }
}

/// Renders lines of code.
pub(crate) fn lines(text: &str, language: Language) -> Markup {
    let mut html = String::with_capacity(text.len() * 2);
    for each in text.split_inclusive('\n') {
        html.push_str(&line(each, language).0);
    }
    PreEscaped(html)
}

/// Renders a line of code.
pub(crate) fn line(text: &str, language: Language) -> Markup {
    let mut html = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (class, length) = token(rest, first, &language);
        let (token, after) = rest.split_at(length);
        rest = after;
        let shown = exact(token, false).0;
        if class.is_empty() {
            html.push_str(&shown);
        } else {
            html.push_str("<span class=\"");
            html.push_str(class);
            html.push_str("\">");
            html.push_str(&shown);
            html.push_str("</span>");
        }
    }
    PreEscaped(html)
}

/// Returns the class of the token at the beginning of a text, and its length.
fn token(text: &str, first: char, language: &Language) -> (&'static str, usize) {
    if language.comments.iter().any(|mark| text.starts_with(mark)) || text.starts_with("/*") {
        return ("h-comment", text.len());
    }
    if language.quotes.contains(first) {
        return ("h-text", quoted(text, first));
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let while_word = || text.find(|c| !is_word(c)).unwrap_or(text.len());
    if first.is_ascii_digit() {
        return ("h-number", while_word());
    }
    if is_word(first) {
        let length = while_word();
        let is_known = language.has(&text[..length]);
        return (if is_known { "h-word" } else { "" }, length);
    }
    let starts = |c: char| is_word(c) || language.quotes.contains(c) || "/#-".contains(c);
    let length =
        text.char_indices().skip(1).find(|(_, c)| starts(*c)).map_or(text.len(), |it| it.0);
    ("", length)
}

/// Returns the length of a text in quotes, which ends with its line at the latest.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\n' => return at,
            _ if character == quote => return at + quote.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_coloured_and_keeps_its_text() {
        let rust = Language::of_file("src/main.rs").unwrap();
        assert_eq!(
            line("let a = \"<b>\"; // 1", rust).0,
            "<span class=\"h-word\">let</span> a = <span class=\"h-text\">&quot;&lt;b&gt;&quot;</span>; \
             <span class=\"h-comment\">// 1</span>"
        );
        let sql = Language::named("SQL").unwrap();
        assert!(line("SELECT 1", sql).0.starts_with("<span class=\"h-word\">SELECT</span>"));
        assert!(Language::of_file("README").is_none() && Language::named("klingon").is_none());
    }

    #[test]
    fn any_text_is_kept_whole() {
        for language in LANGUAGES {
            for text in
                ["\"open", "'\\", "a\"b'c`d", "ä/ö#ü--", "/* x", "1e9_x", "</script>", "\u{202e}x"]
            {
                let shown = lines(text, language).0;
                let mut kept = shown.replace("</span>", "");
                for class in ["h-word", "h-text", "h-number", "h-comment"] {
                    kept = kept.replace(&format!("<span class=\"{class}\">"), "");
                }
                assert_eq!(kept, exact(text, false).0, "{:?}", language.names);
            }
        }
    }
}
