//! Texts to work on, the same in every run.

/// A text of at least `len` bytes, made of lines in turn and cut at a character boundary.
pub fn lines_of(lines: &[&str], len: usize) -> String {
    let mut text = String::with_capacity(len + 128);
    for line in lines.iter().cycle() {
        if text.len() >= len {
            break;
        }
        text.push_str(line);
        text.push('\n');
    }
    text.truncate(text.floor_char_boundary(len));
    text.truncate(text.trim_end().len());
    text
}

/// Prose as agents write it, in ASCII.
pub const PROSE: &[&str] = &[
    "I read the session module from top to bottom and the change is smaller than it looks.",
    "The token is refreshed in two places: once when the socket opens, and once when a request fails.",
    "Only the second one takes the lock, so two tabs can race and one of them loses its session.",
    "My suggestion is to move the refresh into the store and let both callers wait for one result.",
    "The tests pass, but none of them opens two connections at once; I will add one that does.",
];

/// The same with the quotation marks and dashes of a printed page.
pub const TYPOGRAPHIC: &[&str] = &[
    "I read the module from top to bottom — the change is “smaller than it looks”, I’d say.",
    "The token’s refreshed in two places: once when the socket opens, once when a request fails…",
    "Only the second one takes the lock – so two tabs can race, and one “loses” its session.",
];

/// Chinese.
pub const CJK: &[&str] = &[
    "我把会话模块从头到尾看了一遍，改动比看上去要小。",
    "令牌在两个地方刷新：一次在连接打开时，一次在请求失败时。",
    "只有后者持有锁，所以两个标签页可能竞争，其中一个会丢失会话。",
];

/// Code, indented and with brackets.
pub const CODE: &[&str] = &[
    "pub fn refresh(store: &mut Store, now: Instant) -> Result<Token, Error> {",
    "    let cached = store.tokens[0].as_ref();",
    "    match cached {",
    "        Some(token) if token.expires > now => Ok(token.clone()),",
    "        _ => store.fetch().map_err(|error| Error::Refresh { error, at: now }),",
    "    }",
    "}",
];
