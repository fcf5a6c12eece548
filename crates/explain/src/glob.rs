//! Path patterns: `*`, `?`, `[a-z]`, `{a,b}` and `**`, matched piece by piece of a path.

/// The most alternatives that the braces of one pattern may stand for.
const MAX_ALTERNATIVES: usize = 256;

/// Returns whether a pattern matches a whole path; dots are nothing special.
pub(crate) fn matches(pattern: &str, path: &str) -> bool {
    let pieces: Vec<_> = path.split('/').collect();
    alternatives(pattern).iter().any(|pattern| {
        let pattern: Vec<_> = pattern.split('/').collect();
        matches_pieces(&pattern, &pieces)
    })
}

/// Returns whether a pattern selects a relative path as a line of `.gitignore` would: a pattern
/// without a slash counts at any depth, and a directory selects all below it.
pub(crate) fn selects(pattern: &str, relative: &str) -> bool {
    let pieces: Vec<_> = relative.split('/').collect();
    alternatives(pattern).iter().any(|pattern| {
        let pattern = pattern.trim_end_matches('/');
        let anchored = pattern.contains('/');
        let pattern: Vec<_> = pattern.trim_start_matches('/').split('/').collect();
        if anchored {
            (1..=pieces.len()).any(|end| matches_pieces(&pattern, &pieces[..end]))
        } else {
            pieces.iter().any(|piece| matches_pieces(&pattern, &[piece]))
        }
    })
}

/// Writes out the braces of a pattern.
fn alternatives(pattern: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut open = vec![pattern.to_owned()];
    while let Some(pattern) = open.pop() {
        match first_braces(&pattern) {
            Some((before, choices, after)) if open.len() + done.len() < MAX_ALTERNATIVES => {
                let written = choices.iter().rev();
                open.extend(written.map(|choice| format!("{before}{choice}{after}")));
            }
            _ => done.push(pattern),
        }
    }
    done
}

/// The first braces that hold a comma, split into what is before, within and after.
fn first_braces(pattern: &str) -> Option<(&str, Vec<&str>, &str)> {
    let start = pattern.find('{')?;
    let mut depth = 0_usize;
    let mut cuts = vec![start];
    for (at, byte) in pattern.bytes().enumerate().skip(start) {
        match byte {
            b'{' => depth += 1,
            b',' if depth == 1 => cuts.push(at),
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    cuts.push(at);
                    break;
                }
            }
            _ => {}
        }
    }
    if depth != 0 || cuts.len() < 3 {
        return None;
    }
    let choices = cuts.windows(2).map(|cut| &pattern[cut[0] + 1..cut[1]]);
    let end = cuts.last().copied().unwrap_or(start);
    Some((&pattern[..start], choices.collect(), &pattern[end + 1..]))
}

/// Matches pieces of a pattern with pieces of a path, in time proportional to their product.
fn matches_pieces<P: AsRef<str>, T: AsRef<str>>(pattern: &[P], path: &[T]) -> bool {
    // `reachable[i]`: the pattern so far matches the first `i` pieces of the path.
    let mut reachable = vec![false; path.len() + 1];
    reachable[0] = true;
    for piece in pattern {
        let piece = piece.as_ref();
        if piece == "**" {
            let first = reachable.iter().position(|at| *at).unwrap_or(usize::MAX);
            for (index, at) in reachable.iter_mut().enumerate() {
                *at = index >= first;
            }
            continue;
        }
        for index in (0..path.len()).rev() {
            reachable[index + 1] = reachable[index] && matches_piece(piece, path[index].as_ref());
        }
        reachable[0] = false;
    }
    reachable.last().copied().unwrap_or(false)
}

/// Matches one piece; a star goes back to at most one earlier choice, so this never explodes.
fn matches_piece(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    let mut star: Option<(&str, &str)> = None;
    loop {
        if let Some(rest) = pattern.strip_prefix('*') {
            pattern = rest.trim_start_matches('*');
            star = Some((pattern, text));
            continue;
        }
        let mut characters = text.chars();
        let Some(character) = characters.next() else {
            return pattern.is_empty();
        };
        if let Some(rest) = matches_one(pattern, character) {
            pattern = rest;
            text = characters.as_str();
            continue;
        }
        let Some((after_star, at)) = star else {
            return false;
        };
        let mut skipped = at.chars();
        skipped.next();
        pattern = after_star;
        text = skipped.as_str();
        star = Some((after_star, text));
    }
}

/// Matches the first token of a pattern with one character; returns the rest of the pattern.
fn matches_one(pattern: &str, character: char) -> Option<&str> {
    let mut tokens = pattern.chars();
    match tokens.next()? {
        '?' => Some(tokens.as_str()),
        '[' => match pattern[1..].find(']') {
            Some(end) if end > 0 => {
                in_class(&pattern[1..=end], character).then(|| &pattern[end + 2..])
            }
            _ => (character == '[').then_some(tokens.as_str()),
        },
        '\\' => {
            let literal = tokens.next()?;
            (literal == character).then_some(tokens.as_str())
        }
        literal => (literal == character).then_some(tokens.as_str()),
    }
}

fn in_class(class: &str, character: char) -> bool {
    let (negated, class) = match class.strip_prefix(['!', '^']) {
        Some(class) => (true, class),
        None => (false, class),
    };
    let class: Vec<_> = class.chars().collect();
    let mut found = false;
    let mut at = 0;
    while at < class.len() {
        if at + 2 < class.len() && class[at + 1] == '-' {
            found |= (class[at]..=class[at + 2]).contains(&character);
            at += 3;
        } else {
            found |= class[at] == character;
            at += 1;
        }
    }
    found != negated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusion_patterns_are_matched_with_whole_absolute_paths() {
        let cases = [
            ("**/CLAUDE.md", "/lab/repo/CLAUDE.md", true),
            ("**/CLAUDE.md", "/CLAUDE.md", true),
            ("CLAUDE.md", "/lab/CLAUDE.md", false),
            ("./CLAUDE.md", "/lab/CLAUDE.md", false),
            ("/lab/ws/CLAUDE.md", "/lab/ws/CLAUDE.md", true),
            ("/lab/*/CLAUDE.md", "/lab/ws/CLAUDE.md", true),
            ("/lab/*/CLAUDE.md", "/lab/a/b/CLAUDE.md", false),
            ("**/rules/**", "/lab/.claude/rules/a/b.md", true),
            ("**/.claude/**", "/lab/.claude/CLAUDE.md", true),
            ("/lab/**", "/lab/x/y", true),
            ("/{lab,home}/CLAUDE.md", "/home/CLAUDE.md", true),
            ("**/*.{md,txt}", "/lab/a.txt", true),
            ("/lab/[a-c]?.md", "/lab/bz.md", true),
            ("/lab/[!a-c]?.md", "/lab/bz.md", false),
            ("/lab/a*c*e", "/lab/abcde", true),
            ("/lab/a*c*f", "/lab/abcde", false),
            ("/lab/[x", "/lab/[x", true),
            ("", "/lab", false),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn rule_patterns_are_matched_like_lines_of_gitignore() {
        let cases = [
            ("src", "src/a/b.rs", true),
            ("src", "lib/src/x", true),
            ("/src", "lib/src/x", false),
            ("/src", "src/x", true),
            ("src/*.ts", "src/a.ts", true),
            ("src/*.ts", "src/b/a.ts", false),
            ("src/**/*.ts", "src/b/a.ts", true),
            ("*.{ts,tsx}", "deep/a.tsx", true),
            ("**/*", "a", true),
            ("docs/", "docs/a.md", true),
            ("a.md", "b.md", false),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(selects(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn hostile_patterns_end_quickly() {
        let stars = "*a".repeat(2_000);
        assert!(!matches(&stars, &format!("{}b", "a".repeat(5_000))));
        assert!(!matches(&format!("{}b", "**/".repeat(500)), &"a/".repeat(500)));
        assert!(alternatives(&"{a,b}".repeat(40)).len() <= 2 * MAX_ALTERNATIVES);
        assert!(!matches(&"{".repeat(10_000), "/x"));
    }
}
