//! Private keys in a text: a title, and below it the key in base64.
//!
//! People write of such titles, so that a title alone is no key. Keys are quoted, numbered and put in JSON,
//! so that some signs may stand between the pieces of one.

/// How a private key begins.
pub(super) const BEGINS: &str = "-----BEGIN ";
const ENDS: &str = "-----END ";
const DASHES: &str = "-----";
/// The most characters of the words in a title.
const MOST_WORDS: usize = 64;
/// A run of base64 that is shorter is a word, unless it is the last of a key.
const RUN: usize = 16;
/// A run of base64 of which nobody needs to see the end to know that it is no word.
const SURE_RUN: usize = 40;
/// The most that stands between two runs of one key.
const MOST_BETWEEN: usize = 256;
/// The headers that stand above the base64.
const HEADERS: [&str; 6] = ["Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Hash:", "Charset:"];

/// How far a private key reaches that begins where a text does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// There is none.
    Nothing,
    /// More text decides whether there is one.
    Undecided,
    /// So far, whatever follows.
    To(usize),
    /// So far at least; more text decides about the rest.
    AtLeast(usize),
}

/// Returns how far the private key reaches that begins, with its title, where a text does.
pub(super) fn key(text: &str) -> Reach {
    let Some(rest) = text.strip_prefix(BEGINS) else { return Reach::Nothing };
    let words = rest.bytes().take(MOST_WORDS).take_while(|&b| is_title(b)).count();
    let (words, rest) = rest.split_at(words);
    if !rest.starts_with(DASHES) {
        let may_go_on = DASHES.starts_with(rest) && words.len() < MOST_WORDS;
        return if may_go_on { Reach::Undecided } else { Reach::Nothing };
    }
    if !words.contains("PRIVATE KEY") {
        return Reach::Nothing;
    }
    let title = BEGINS.len() + words.len() + DASHES.len();
    let far = |length| title + length;
    match base64(&text[title..], Seen::Title) {
        Reach::To(length) => Reach::To(far(length)),
        Reach::AtLeast(length) => Reach::AtLeast(far(length)),
        other => other,
    }
}

/// Returns how far the rest of a private key reaches of which there was some base64 already.
pub(super) fn rest_of_key(text: &str) -> Reach {
    base64(text, Seen::Base64)
}

/// What there was of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Title,
    Base64,
}

fn base64(text: &str, mut seen: Seen) -> Reach {
    // Up to here it is a key's, and this far it was read.
    let (mut end, mut at) = (0, 0);
    let mut words = 0;
    loop {
        at += between(&text[at..]);
        let rest = &text[at..];
        let settled = match seen {
            Seen::Title => Reach::Nothing,
            Seen::Base64 => Reach::To(end),
        };
        let open = match seen {
            Seen::Title => Reach::Undecided,
            Seen::Base64 => Reach::AtLeast(end),
        };
        if at - end > MOST_BETWEEN {
            return settled;
        }
        if let Some(after) = rest.strip_prefix(ENDS) {
            // A title and an end on one line, or with nothing between them, hold no secret.
            let is_key = seen == Seen::Base64 || words > 0 && text[..at].contains(['\n', '\\']);
            return if is_key { last_line(text.len() - after.len(), after) } else { settled };
        }
        if ENDS.starts_with(rest) || HEADERS.iter().any(|header| header.starts_with(rest)) {
            return open;
        }
        let run = run(rest);
        let is_last = run == rest.len();
        let has_letters = rest[..run].bytes().any(|b| b.is_ascii_alphabetic());
        // The last line of a key may be short; what follows one is its end, or it was no line of a key.
        if run == 0 || words > 0 && has_letters {
            return settled;
        }
        let is_long = run >= RUN
            && (seen == Seen::Base64 || run >= SURE_RUN || !is_last && between(&rest[run..]) > 0);
        if is_last {
            // What comes next may go on with this run.
            return if is_long { Reach::AtLeast(at + run - RUN) } else { open };
        }
        at += run;
        if is_long {
            seen = Seen::Base64;
            end = at;
        } else {
            // A line's number or sign is no word.
            words += usize::from(has_letters);
        }
    }
}

/// Returns how far the last line of a key reaches, of which the beginning is there.
fn last_line(at: usize, rest: &str) -> Reach {
    let words = rest.bytes().take(MOST_WORDS).take_while(|&b| is_title(b)).count();
    let dashes = rest[words..].bytes().take(DASHES.len()).take_while(|&b| b == b'-').count();
    let length = words + dashes;
    let is_open = length == rest.len() && dashes < DASHES.len();
    if is_open { Reach::AtLeast(at - ENDS.len()) } else { Reach::To(at + length) }
}

fn is_title(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b' '
}

/// Returns the length of the base64 that a text begins with. In JSON a slash may be escaped.
fn run(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let is_slash = byte == b'\\' && bytes.get(at + 1) == Some(&b'/');
        if !is_slash && !byte.is_ascii_alphanumeric() && !matches!(byte, b'+' | b'/' | b'=') {
            break;
        }
        at += 1 + usize::from(is_slash);
    }
    at
}

/// Returns the length of what a text begins with that may stand between two runs of a key: white space,
/// as it is or escaped, quotation marks and signs before a line, and the headers above the base64.
fn between(text: &str) -> usize {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\\' if rest.starts_with("\\/") => break,
            '\\' => {
                let slashes = rest.bytes().take_while(|&b| b == b'\\').count();
                slashes + usize::from(rest[slashes..].starts_with(['n', 'r', 't']))
            }
            '-' if rest.starts_with(DASHES) || DASHES.starts_with(rest) => break,
            '"' | '\'' | ',' | '|' | '>' | '#' | '*' | '-' | '→' => first.len_utf8(),
            _ if first.is_whitespace() => first.len_utf8(),
            _ => {
                let is_header = HEADERS.iter().any(|header| rest.starts_with(header));
                let line = rest.find(['\n', '\\']).unwrap_or(rest.len());
                if is_header { line } else { break }
            }
        };
        rest = &rest[length..];
    }
    text.len() - rest.len()
}
