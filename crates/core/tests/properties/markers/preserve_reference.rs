//! The default policy, written down line by line and character by character, without haste.

use convoke_core::whitespace::is_space;

#[derive(Debug, Default, PartialEq)]
pub struct Cleaned {
    pub text: String,
    /// What stands in each list of names, as written.
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
    let mut fence: Option<Vec<char>> = None;
    let mut block: Option<Vec<String>> = None;
    let mut lines = Vec::new();
    for line in message.split_inclusive('\n') {
        let (text, ending) = match (line.strip_suffix("\r\n"), line.strip_suffix('\n')) {
            (Some(text), _) => (text, "\r\n"),
            (None, Some(text)) => (text, "\n"),
            (None, None) => (line, ""),
        };
        let keep = || Line::Kept { text: text.to_owned(), ending };
        if let Some(marks) = &fence {
            let closes = fence_of(text)
                .is_some_and(|(closing, info)| closing.starts_with(marks) && is_blank(&info));
            if closes {
                fence = None;
            }
            lines.push(keep());
            continue;
        }
        // The conformance vectors fix that a line that ends in CRLF opens no fence.
        let opened = fence_of(text).filter(|(marks, info)| {
            let inline_code = marks[0] == '`' && info.contains('`');
            !inline_code && !info.contains('\r') && ending != "\r\n"
        });
        if is_blank(text) || opened.is_some() || is_quotation(text) {
            said.end_block(&mut block);
            fence = opened.map(|(marks, _)| marks);
            lines.push(keep());
            continue;
        }
        lines.push(match read_line(text, &mut block, &mut said) {
            None => keep(),
            Some(rest) if is_blank(&rest) => Line::Removed,
            Some(text) => Line::Kept { text, ending },
        });
    }
    said.end_block(&mut block);
    said.text = join(lines);
    said
}

/// Returns what is left of a line that lost something.
fn read_line(line: &str, block: &mut Option<Vec<String>>, said: &mut Cleaned) -> Option<String> {
    let indent: String = line.chars().take_while(|&c| is_space(c)).collect();
    let mut rest: Vec<char> = line[indent.len()..].chars().collect();
    if starts_with(&rest, "[TEAM_TASK]") {
        said.end_block(block);
        *block = Some(Vec::new());
        rest.drain(.."[TEAM_TASK]".len());
    }
    let was_block = block.is_some();
    let (mut pieces, mut piece) = (Vec::new(), String::new());
    while !rest.is_empty() {
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
        return Some(String::new());
    }
    (was_block || pieces.len() > 1).then(|| indent + &around_holes(&pieces))
}

/// Joins what stands around holes: by one space where there was any white space.
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

/// The length of the inline code that begins here, or of the back-ticks that open none.
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

/// The marks of a fence, and what follows them.
fn fence_of(line: &str) -> Option<(Vec<char>, String)> {
    let text = unindented(line)?;
    let mark = text.chars().next().filter(|c| ['`', '~'].contains(c))?;
    let marks: Vec<char> = text.chars().take_while(|&c| c == mark).collect();
    (marks.len() >= 3).then(|| (marks.clone(), text[marks.len()..].to_owned()))
}

fn is_quotation(line: &str) -> bool {
    unindented(line).is_some_and(|text| text.starts_with('>'))
}

/// A line without its indentation of at most three spaces.
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
