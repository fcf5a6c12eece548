//! Dates and times in texts.

/// The beginnings of the names of months and days.
const NAMES: [&str; 19] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", "mon",
    "tue", "wed", "thu", "fri", "sat", "sun",
];
/// Their full names, and usual forms that are neither full nor three letters long.
const LONG_NAMES: [&str; 22] = [
    "january",
    "february",
    "march",
    "april",
    "june",
    "july",
    "august",
    "september",
    "sept",
    "october",
    "november",
    "december",
    "monday",
    "tuesday",
    "tues",
    "wednesday",
    "thursday",
    "thur",
    "thurs",
    "friday",
    "saturday",
    "sunday",
];
/// The words between a number and the name of its month.
const NEIGHBOURS: usize = 2;

/// Returns whether two texts are equal but for dates and times. A number alone is neither: it must stand beside the name of
/// a month or a day.
pub(crate) fn differ_in_dates_only(before: &str, after: &str) -> bool {
    let (ones, others): (Vec<&str>, Vec<&str>) = (words(before).collect(), words(after).collect());
    ones.len() == others.len()
        && ones
            .iter()
            .zip(&others)
            .enumerate()
            .all(|(at, (one, other))| one == other || (is_date(&ones, at) && is_date(&others, at)))
}

/// Splits a text at everything that is not part of a date.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | ':' | '/' | '.' | '+' | '_');
    let words = text.split(move |c| !is_part(c));
    words.map(|word| word.trim_matches(['-', ':', '.'])).filter(|word| !word.is_empty())
}

fn is_date(words: &[&str], at: usize) -> bool {
    let word = words[at];
    if is_name(word) || is_numeric_date(word) || is_time(word) {
        return true;
    }
    let near = &words[at.saturating_sub(NEIGHBOURS)..words.len().min(at + NEIGHBOURS + 1)];
    is_day_or_year(word) && near.iter().any(|near| is_name(near))
}

/// Recognises the name of a month or a day. It begins with a capital: `may` is a verb more often.
fn is_name(word: &str) -> bool {
    if !word.starts_with(|c: char| c.is_ascii_uppercase()) {
        return false;
    }
    let word = word.to_ascii_lowercase();
    NAMES.contains(&&*word) || LONG_NAMES.contains(&&*word)
}

/// Recognises `16`, `16th` and `2026`.
fn is_day_or_year(word: &str) -> bool {
    let mut suffixes = ["st", "nd", "rd", "th"].into_iter();
    let digits = suffixes.find_map(|it| word.strip_suffix(it)).unwrap_or(word);
    number(digits, 1..=2).is_some_and(|day| (1..=31).contains(&day)) || is_year(word)
}

fn is_year(word: &str) -> bool {
    number(word, 4..=4).is_some_and(|year| (1900..2200).contains(&year))
}

/// Recognises `2026-11-16`, `16.11.2026`, `11/16/26` and a date with a time behind it.
fn is_numeric_date(word: &str) -> bool {
    let (date, time) = word.split_once(['T', 't']).unwrap_or((word, ""));
    let is_whole = time.is_empty() || is_time(time);
    is_whole
        && ['-', '/', '.'].into_iter().any(|separator| {
            let parts: Vec<&str> = date.split(separator).collect();
            let [first, middle, last] = parts.as_slice() else { return false };
            let is_day =
                |part: &str| number(part, 1..=2).is_some_and(|day| (1..=31).contains(&day));
            let is_last_year = is_year(last) || (separator == '/' && number(last, 2..=2).is_some());
            is_day(middle) && ((is_year(first) && is_day(last)) || (is_day(first) && is_last_year))
        })
}

/// Recognises `7:56`, `07:56:12.123Z` and `07:56:12+01:00`.
fn is_time(word: &str) -> bool {
    let word = word.trim_end_matches(['Z', 'z']);
    let clock = word.split(['+', '-']).next().unwrap_or(word);
    let parts: Vec<&str> = clock.split(':').collect();
    let seconds = |part: &str| {
        let (whole, fraction) = part.split_once('.').unwrap_or((part, "0"));
        number(whole, 2..=2).is_some_and(|it| it < 61)
            && fraction.bytes().all(|it| it.is_ascii_digit())
    };
    match parts.as_slice() {
        [hours, minutes, rest @ ..] if rest.len() < 2 => {
            number(hours, 1..=2).is_some_and(|it| it < 25)
                && number(minutes, 2..=2).is_some_and(|it| it < 60)
                && rest.iter().all(|part| seconds(part))
        }
        _ => false,
    }
}

/// Parses a number of some digits.
fn number(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<u32> {
    let is_number = digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_are_distinguished_from_other_words_with_digits() {
        let cases = [
            ("Today is 2026-11-15.", "Today is 2026-11-16.", true),
            ("<date>2026-11-15</date>", "<date>2026-11-16</date>", true),
            ("at 2026-11-15T07:56:12.123Z", "at 2026-11-16T08:01:00.001Z", true),
            ("it is 7:56", "it is 23:01:12", true),
            ("Sunday, November 15, 2026", "Monday, November 16, 2026", true),
            ("the 1st of May 2026", "the 2nd of June 2027", true),
            ("11/15/26 and 15.11.2026", "11/16/26 and 16.11.2026", true),
            ("same", "same", true),
            ("Use 4 spaces.", "Use 2 spaces.", false),
            ("may use 4 spaces", "may use 2 spaces", false),
            ("/tmp/convoke-kPZu9S/home", "/tmp/convoke-mNS24m/home", false),
            ("commit 1a2b3c4", "commit 5d6e7f8", false),
            ("version 1.2.3", "version 1.2.4", false),
            ("port 8080", "port 8081", false),
            ("in 2026", "in 2027", false),
            ("mark 1", "second 1", false),
            ("12:99", "12:98", false),
            ("a 2026-11-15", "a b 2026-11-15", false),
        ];
        for (before, after, expected) in cases {
            assert_eq!(differ_in_dates_only(before, after), expected, "{before} / {after}");
        }
    }
}
