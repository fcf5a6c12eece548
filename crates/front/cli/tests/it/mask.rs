//! Masks for values that differ from run to run.

use std::fmt::Write as _;

/// Replaces the ids of sessions, whole or their last eight digits, by their order of appearance.
pub fn session_ids(text: &str) -> String {
    let mut known: Vec<String> = Vec::new();
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    let is_part = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c) || c == '-';
    while let Some(start) = rest.find(is_part) {
        let word = &rest[start..];
        let word = &word[..word.find(|c| !is_part(c)).unwrap_or(word.len())];
        let follows_a_word = rest[..start].ends_with(|c: char| c.is_alphanumeric());
        let precedes_a_word = rest[start + word.len()..].starts_with(|c: char| c.is_alphanumeric());
        let whole = word.len() == 36 && word.matches('-').count() == 4;
        // Now and then one without a single digit.
        let short = word.len() == 8 && !word.contains('-');
        masked.push_str(&rest[..start]);
        if (whole || short) && !follows_a_word && !precedes_a_word {
            let end = if whole { &word[24..32] } else { word }.to_owned();
            let index = known.iter().position(|id| *id == end).unwrap_or_else(|| {
                known.push(end);
                known.len() - 1
            });
            let size = if whole { "SESSION" } else { "session" };
            let _ = write!(masked, "[{size} {}]", index + 1);
        } else {
            masked.push_str(word);
        }
        rest = &rest[start + word.len()..];
    }
    masked + rest
}

/// Replaces times in brackets, such as `(1.2 s)`, and JSON fields that tell the time.
pub fn times(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('(') {
        let (before, after) = rest.split_at(start + 1);
        masked.push_str(before);
        rest = match after.split_once(" s)") {
            Some((number, further)) if number.parse::<f64>().is_ok() => {
                masked.push_str("TIME)");
                further
            }
            _ => after,
        };
    }
    masked.push_str(rest);
    ["elapsedMs", "at", "createdAt", "updatedAt", "timestamp", "queuedAt", "endedAt", "beganAt"]
        .iter()
        .fold(events_hash(&masked), |text, field| json_number(&text, field))
}

/// Replaces the hash of a turn's events, which have times.
fn events_hash(text: &str) -> String {
    let key = "\"events\":{\"hash\":\"";
    let mut parts = text.split(key);
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        masked += key;
        masked += "HASH";
        masked += &part[part.find('"').unwrap_or(0)..];
    }
    masked
}

/// Replaces the ages that a slow machine shows. The blanks around an age depend on
/// the ages of other lines.
pub fn ages(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let old = line
            .split_once(" min ago")
            .map(|(before, after)| (before.trim_end_matches(|c: char| c.is_ascii_digit()), after));
        let Some((before, after)) = old.or_else(|| line.split_once("just now")) else {
            return line.to_owned();
        };
        let gap = if before.ends_with("  ") { "  " } else { " " };
        let before = before.trim_end_matches(' ');
        let gap = if before.is_empty() { "" } else { gap };
        match after.strip_prefix("  ") {
            Some(after) => format!("{before}{gap}just now  {}", after.trim_start_matches(' ')),
            None => format!("{before}{gap}just now{after}"),
        }
    });
    lines.collect()
}

#[test]
fn ages_of_a_minute_are_masked_with_their_blanks() {
    let young = "a1b2c3d4  just now  .  kim\n";
    for old in [young, "a1b2c3d4  12 min ago  .  kim\n", "a1b2c3d4   just now   .  kim\n"] {
        assert_eq!(ages(old), young, "{old}");
    }
}

fn json_number(text: &str, field: &str) -> String {
    let key = format!("\"{field}\":");
    let mut parts = text.split(&key);
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        masked += &key;
        masked += if digits > 0 { "0" } else { "" };
        masked += &part[digits..];
    }
    masked
}
