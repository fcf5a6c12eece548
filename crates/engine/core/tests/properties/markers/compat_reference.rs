//! A reference implementation of the cleanup of `compat`: character by character, without regular expressions.

use convoke_core::whitespace::is_space;

pub struct Stripped {
    pub text: String,
    pub task: Option<String>,
    pub from: Option<String>,
}

pub fn strip(message: &str) -> Stripped {
    let characters: Vec<char> = message.chars().collect();
    let (characters, senders) = remove(&characters, |rest| body_end(rest, "[FROM:", 1));
    let (characters, tasks) = remove(&characters, task_end);
    let (characters, _) = remove(&characters, |rest| body_end(rest, "[NEXT:", 0));
    let said = |bodies: Vec<String>| {
        let trimmed = bodies.into_iter().map(|body| body.trim_matches(is_space).to_owned());
        trimmed.filter(|body| !body.is_empty()).collect::<Vec<_>>()
    };
    Stripped {
        text: clean_up(&characters.iter().collect::<String>()),
        task: said(tasks).pop(),
        from: said(senders).into_iter().next(),
    }
}

/// Removes every match, each search beginning where the last match ended, and returns the bodies.
///
/// `find` returns the body and the end of a match at the start of its argument.
fn remove(
    text: &[char],
    find: impl Fn(&[char]) -> Option<(String, usize)>,
) -> (Vec<char>, Vec<String>) {
    let (mut kept, mut bodies) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < text.len() {
        if let Some((body, len)) = find(&text[at..]) {
            bodies.push(body);
            at += len;
        } else {
            kept.push(text[at]);
            at += 1;
        }
    }
    (kept, bodies)
}

fn starts_with(text: &[char], opening: &str) -> bool {
    let folded = text.iter().take(opening.len()).map(char::to_ascii_uppercase);
    folded.eq(opening.chars())
}

/// An opening, at least `least` characters other than `]`, and a `]`.
fn body_end(text: &[char], opening: &str, least: usize) -> Option<(String, usize)> {
    if !starts_with(text, opening) {
        return None;
    }
    let body: String = text[opening.len()..].iter().take_while(|&&c| c != ']').collect();
    let len = body.chars().count();
    let closed = text.get(opening.len() + len) == Some(&']');
    (closed && len >= least).then_some((body, opening.len() + len + 1))
}

/// `[TEAM_TASK]` and everything after it, up to the next `[` or the end.
fn task_end(text: &[char]) -> Option<(String, usize)> {
    const OPENING: &str = "[TEAM_TASK]";
    if !starts_with(text, OPENING) {
        return None;
    }
    let body: String = text[OPENING.len()..].iter().take_while(|&&c| c != '[').collect();
    let len = body.chars().count();
    Some((body, OPENING.len() + len))
}

fn clean_up(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let mut out = String::new();
        let mut run = String::new();
        for character in line.chars() {
            if is_space(character) {
                run.push(character);
                continue;
            }
            flush(&mut run, &mut out);
            out.push(character);
        }
        flush(&mut run, &mut out);
        out.trim_matches(is_space).to_owned()
    });
    let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("\n").trim_matches(is_space).to_owned()
}

/// A single white space character stays; several become one space.
fn flush(run: &mut String, out: &mut String) {
    out.push_str(if run.chars().count() > 1 { " " } else { run });
    run.clear();
}
