//! A reference implementation of the default policy, line by line and character by character.

use convoke_core::whitespace::is_space;

#[derive(Debug, Default, PartialEq)]
pub struct Cleaned {
    pub text: String,
    /// The contents of each list of names, as written.
    pub next: Vec<String>,
    pub drop: Vec<String>,
    pub from: Option<String>,
    pub task: Option<String>,
}

/// A line of the result.
enum Line {
    Kept { text: String, ending: &'static str },
    Removed,
}

impl Line {
    fn is_void(&self) -> bool {
        match self {
            Self::Kept { text, .. } => is_blank(text),
            Self::Removed => true,
        }
    }
}

pub fn clean(message: &str) -> Cleaned {
    let mut said = Cleaned::default();
    let mut blocks = Blocks::default();
    let mut block: Option<Vec<String>> = None;
    let mut raw_end = 0;
    let mut lines = Vec::new();
    let mut next = 0;
    for line in message.split_inclusive('\n') {
        let start = next;
        next += line.len();
        let (text, ending) = match (line.strip_suffix("\r\n"), line.strip_suffix('\n')) {
            (Some(text), _) => (text, "\r\n"),
            (None, Some(text)) => (text, "\n"),
            (None, None) => (line, ""),
        };
        let keep = || Line::Kept { text: text.to_owned(), ending };
        // The number of bytes of raw HTML at the start of the line.
        let raw = if start < raw_end {
            text.len().min(raw_end - start)
        } else {
            match blocks.text_len(text, ending) {
                0 => 0,
                all if all == text.len() || is_blank(text) => {
                    said.end_block(&mut block);
                    lines.push(keep());
                    continue;
                }
                raw => {
                    said.end_block(&mut block);
                    raw
                }
            }
        };
        let below = message[next..].split_inclusive('\n').take_while(|line| !is_blank(line));
        let paragraph = &message[start..next + below.map(str::len).sum::<usize>()];
        let (rest, end) = read_line(text, raw, paragraph, &mut block, &mut said);
        raw_end = raw_end.max(start + end);
        lines.push(match rest {
            None => keep(),
            Some(rest) if is_blank(&rest) => Line::Removed,
            Some(text) => Line::Kept { text, ending },
        });
    }
    said.end_block(&mut block);
    said.text = join(lines);
    said
}

/// The open blocks between two lines.
#[derive(Default)]
struct Blocks {
    /// The columns at which the content of list items begins.
    items: Vec<usize>,
    /// The marks of a fence.
    fence: Option<Vec<char>>,
    /// The end of raw HTML.
    raw: Option<&'static str>,
    in_paragraph: bool,
}

impl Blocks {
    /// The number of bytes at the start of a line in which markers do not count, because of blocks.
    fn text_len(&mut self, line: &str, ending: &str) -> usize {
        if is_blank(line) {
            self.in_paragraph = false;
            return line.len().max(1);
        }
        let spaced = without_tabs(line);
        let indent = spaced.len() - spaced.trim_start_matches(' ').len();
        let matched = self.items.iter().take_while(|&&column| column <= indent).count();
        let mut base = self.items[..matched].last().copied().unwrap_or(0);
        if matched == self.items.len() {
            if let Some(marks) = &self.fence {
                let closes = fence_of(&spaced[base..])
                    .is_some_and(|(closing, info)| closing.starts_with(marks) && is_blank(&info));
                if closes {
                    self.fence = None;
                }
                return line.len();
            }
            if let Some(end) = self.raw {
                let found = find(line, 0, end);
                if found.is_some() {
                    self.raw = None;
                }
                return found.unwrap_or(line.len());
            }
        }
        (self.fence, self.raw) = (None, None);
        let mut begun = Vec::new();
        while let Some(width) = spaced.get(base..).and_then(item_width) {
            base += width;
            begun.push(base);
        }
        let rest = spaced.get(base..).unwrap_or_default();
        // The conformance vectors fix that a line that ends in CRLF opens no fence.
        let fence = fence_of(rest).filter(|(marks, info)| {
            let inline_code = marks[0] == '`' && info.contains('`');
            !inline_code && !info.contains('\r') && ending != "\r\n"
        });
        let raw = unindented(rest).and_then(raw_of);
        let is_text = fence.is_some() || raw.is_some() || is_quotation(rest);
        let begins = is_text || is_thematic_break(rest);
        if begins || !begun.is_empty() || !self.in_paragraph {
            self.items.truncate(matched);
            self.items.extend(begun);
            self.in_paragraph = !begins && !is_blank(rest) && unindented(rest).is_some();
        }
        self.fence = fence.map(|(marks, _)| marks);
        if let Some((opening, end)) = raw {
            // Only white space and list marks come before it.
            let at = line.find('<').expect("raw HTML") + opening;
            let found = find(line, at, end);
            self.raw = found.is_none().then_some(end);
            return found.unwrap_or(line.len());
        }
        if is_text { line.len() } else { 0 }
    }
}

/// The columns that the mark of a list item takes, with the white space around it.
fn item_width(text: &str) -> Option<usize> {
    if is_thematic_break(text) {
        return None;
    }
    let mark = unindented(text)?;
    let digits = mark.chars().take_while(char::is_ascii_digit).count();
    let after = match mark.chars().nth(digits)? {
        '.' | ')' if (1..=9).contains(&digits) => &mark[digits + 1..],
        '-' | '+' | '*' if digits == 0 => &mark[1..],
        _ => return None,
    };
    let content = after.trim_start_matches(' ');
    let spaces = after.len() - content.len();
    let before = text.len() - after.len();
    match spaces {
        _ if after.is_empty() || content.is_empty() => Some(before + 1),
        0 => None,
        1..=4 => Some(before + spaces),
        _ => Some(before + 1),
    }
}

fn is_thematic_break(text: &str) -> bool {
    let marks: Vec<char> = unindented(text).unwrap_or_default().chars().collect();
    let marks: Vec<char> = marks.into_iter().filter(|&c| c != ' ').collect();
    marks.len() >= 3 && "-*_".contains(marks[0]) && marks.iter().all(|&mark| mark == marks[0])
}

fn without_tabs(line: &str) -> String {
    let mut spaced = String::new();
    for character in line.chars() {
        match character {
            '\t' if spaced.is_ascii() => {
                spaced.push(' ');
                while !spaced.len().is_multiple_of(4) {
                    spaced.push(' ');
                }
            }
            _ => spaced.push(character),
        }
    }
    spaced
}

/// The length of the opening of raw HTML, and its end.
fn raw_of(text: &str) -> Option<(usize, &'static str)> {
    let lower = text.to_ascii_lowercase();
    let pre = ["<pre>", "<pre ", "<pre\t", "<pre\r", "<pre\n"];
    if lower.starts_with("<!--") {
        Some((2, "-->"))
    } else if lower == "<pre" || pre.iter().any(|opening| lower.starts_with(opening)) {
        Some((4, "</pre>"))
    } else {
        None
    }
}

/// The end of the first end of raw HTML.
fn find(text: &str, from: usize, end: &str) -> Option<usize> {
    let found = text[from..].to_ascii_lowercase().find(end)?;
    Some(from + found + end.len())
}

/// Returns the rest of a line after removals, and the end of raw HTML that begins in it.
fn read_line(
    line: &str,
    raw: usize,
    paragraph: &str,
    block: &mut Option<Vec<String>>,
    said: &mut Cleaned,
) -> (Option<String>, usize) {
    let indent: String = line.chars().take_while(|&c| is_space(c)).collect();
    let mut piece = line.get(indent.len()..raw).unwrap_or_default().to_owned();
    let mut rest: Vec<char> = line[indent.len() + piece.len()..].chars().collect();
    if raw == 0 && starts_with(&rest, "[TEAM_TASK]") {
        said.end_block(block);
        *block = Some(Vec::new());
        rest.drain(.."[TEAM_TASK]".len());
    }
    let was_block = block.is_some();
    let mut raw_end = 0;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let at = line.len() - rest.iter().map(|c| c.len_utf8()).sum::<usize>();
        let raw = raw_of(&paragraph[at..]);
        let raw = raw.and_then(|(opening, end)| find(paragraph, at + opening, end));
        if let Some(end) = raw {
            raw_end = end;
            let text = &line[at..end.min(line.len())];
            rest.drain(..text.chars().count());
            piece.push_str(text);
            continue;
        }
        let (marker, len) = match rest[0] {
            '`' => (None, code_len(&rest)),
            _ => {
                marker(&rest).map_or((None, 1), |(keyword, body, len)| (Some((keyword, body)), len))
            }
        };
        let text: String = rest.drain(..len).collect();
        let Some((keyword, body)) = marker else {
            piece.push_str(&text);
            continue;
        };
        if let Some(lines) = block {
            lines.push(std::mem::take(&mut piece));
            said.end_block(block);
        }
        said.obey(keyword, &body);
        pieces.push(std::mem::take(&mut piece));
    }
    pieces.push(piece);
    if let Some(lines) = block {
        lines.extend(pieces);
        return (Some(String::new()), raw_end);
    }
    let left = (was_block || pieces.len() > 1).then(|| indent + &around_holes(&pieces));
    (left, raw_end)
}

/// Joins the pieces around gaps, with one space if there was any white space.
fn around_holes(pieces: &[String]) -> String {
    let characters = pieces.iter().flat_map(|piece| piece.chars().map(Some).chain([None]));
    let mut out = String::new();
    // White space, and holes, since the last character that is neither.
    let mut gap: Vec<Option<char>> = Vec::new();
    for character in characters {
        let Some(visible) = character.filter(|&c| !is_space(c)) else {
            gap.push(character);
            continue;
        };
        let space: String = gap.iter().flatten().collect();
        if !gap.contains(&None) {
            out.push_str(&space);
        } else if !out.is_empty() && !space.is_empty() {
            out.push(' ');
        }
        out.push(visible);
        gap.clear();
    }
    out
}

fn join(mut lines: Vec<Line>) -> String {
    let has_removed = |lines: &[Line]| lines.iter().any(|line| matches!(line, Line::Removed));
    let start = lines.iter().take_while(|line| line.is_void()).count();
    if has_removed(&lines[..start]) {
        lines.drain(..start);
    }
    let end = lines.len() - lines.iter().rev().take_while(|line| line.is_void()).count();
    if has_removed(&lines[end..]) {
        lines.truncate(end);
        if let Some(Line::Kept { ending, .. }) = lines.last_mut() {
            *ending = "";
        }
    }
    let text = |line| match line {
        Line::Kept { text, ending } => text + ending,
        Line::Removed => String::new(),
    };
    lines.into_iter().map(text).collect()
}

impl Cleaned {
    fn end_block(&mut self, block: &mut Option<Vec<String>>) {
        let lines = block.take().unwrap_or_default();
        let lines: Vec<&str> =
            lines.iter().map(|line| trim(line)).filter(|l| !l.is_empty()).collect();
        self.obey("TEAM_TASK", &lines.join("\n"));
    }

    fn obey(&mut self, keyword: &str, body: &str) {
        let names = body.split([',', '，']).map(trim).filter(|name| !name.is_empty());
        let names = names.map(str::to_owned);
        match keyword {
            "NEXT" => self.next.extend(names),
            "DROP" => self.drop.extend(names),
            _ if is_blank(body) => {}
            "FROM" if self.from.is_some() => {}
            "FROM" => self.from = Some(trim(body).to_owned()),
            _ => self.task = Some(trim(body).to_owned()),
        }
    }
}

/// Reads a marker at the start: its keyword, its body and its length.
fn marker(text: &[char]) -> Option<(&'static str, String, usize)> {
    let keywords = ["NEXT", "FROM", "DROP", "TEAM_TASK"].into_iter();
    let keyword = keywords.into_iter().find(|word| starts_with(text, &format!("[{word}:")))?;
    let opening = keyword.len() + 2;
    let body: String = text[opening..].iter().take_while(|c| !['[', ']'].contains(c)).collect();
    let len = opening + body.chars().count();
    (text.get(len) == Some(&']')).then_some((keyword, body, len + 1))
}

/// The length of the inline code that begins here, or of back-ticks that open none.
fn code_len(text: &[char]) -> usize {
    let run = |from: usize| text[from..].iter().take_while(|&&c| c == '`').count();
    let opening = run(0);
    let mut at = opening;
    while at < text.len() {
        match run(at) {
            0 => at += 1,
            closing if closing == opening => return at + closing,
            other => at += other,
        }
    }
    opening
}

/// The marks of a fence, and the text after them.
fn fence_of(line: &str) -> Option<(Vec<char>, String)> {
    let text = unindented(line)?;
    let mark = text.chars().next().filter(|c| ['`', '~'].contains(c))?;
    let marks: Vec<char> = text.chars().take_while(|&c| c == mark).collect();
    (marks.len() >= 3).then(|| (marks.clone(), text[marks.len()..].to_owned()))
}

fn is_quotation(line: &str) -> bool {
    unindented(line).is_some_and(|text| text.starts_with('>'))
}

/// A line without its indentation, if that is at most three spaces.
fn unindented(line: &str) -> Option<&str> {
    let text = line.trim_start_matches(' ');
    (line.len() - text.len() <= 3).then_some(text)
}

fn starts_with(text: &[char], opening: &str) -> bool {
    let folded = text.iter().take(opening.len()).map(char::to_ascii_uppercase);
    folded.eq(opening.chars())
}

fn trim(text: &str) -> &str {
    text.trim_matches(is_space)
}

fn is_blank(text: &str) -> bool {
    trim(text).is_empty()
}
