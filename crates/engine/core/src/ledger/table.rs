//! The ledger as text: a bar of the sections, and a table of the entries.

use std::fmt;

use super::{ENVELOPE, Entry, Ledger, Rule, Source, State, Target, estimate_tokens};
use crate::figures::thousands;

/// Markup around highlighted text, for example colour codes; empty by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style<'s> {
    /// The columns of the screen; `None` means lines of any length.
    pub columns: Option<usize>,
    /// Before and after cut text.
    pub cut: (&'s str, &'s str),
    /// Before and after dropped text.
    pub dropped: (&'s str, &'s str),
}

/// A ledger for people.
///
/// Displays as a bar, a line for each piece of the text in order, and the total.
#[derive(Debug, Clone, Copy)]
pub struct Table<'l, 'a> {
    pub ledger: &'l Ledger<'a>,
    /// The style of cut and dropped text.
    pub style: Style<'l>,
}

/// One line of the table: a piece of content, or everything that Convoke wrote in a section.
struct Line {
    target: Target,
    section: String,
    what: String,
    state: State,
    kept: u64,
    cut: u64,
    /// The rule; empty if it is not shown.
    rule: String,
}

/// The maximum number of dropped messages that are listed one by one.
const LISTED_DROPS: u64 = 8;

/// The width of the bars.
const BAR: u64 = 40;

impl fmt::Display for Table<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = lines(self.ledger);
        let used = self.ledger.used_bytes();
        self.summary(f, used)?;
        self.bar(f, &lines, used.max(1))?;
        writeln!(f)?;
        let width = |text: fn(&Line) -> &str| lines.iter().map(|l| text(l).chars().count()).max();
        let section_width = width(|line| &line.section).unwrap_or(0).max(7);
        let what_width = width(|line| &line.what).unwrap_or(0).max(6);
        if let Some(columns) = self.style.columns
            && columns < section_width + what_width + FIGURES
        {
            return self.narrow(f, &lines, columns);
        }
        for text in lines.chunk_by(|a, b| a.target == b.target) {
            let bytes: u64 = text.iter().map(|line| line.kept).sum();
            let name = title(text[0].target);
            writeln!(
                f,
                "{:width$}  {:>10}  {:>8}  {:>10}",
                format!("{name}, {} bytes", thousands(bytes)),
                "bytes",
                "~tokens",
                "left out",
                width = section_width + what_width + 4,
            )?;
            for line in text {
                self.line(f, line, section_width, what_width)?;
            }
        }
        self.unchanged(f)
    }
}

/// The width of the table without its two columns of names.
const FIGURES: usize = 38;

impl<'l> Table<'l, '_> {
    fn unchanged(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(unchanged) = self.ledger.unchanged_bytes else { return Ok(()) };
        let (unchanged, used) = (thousands(unchanged), thousands(self.ledger.used_bytes()));
        writeln!(f, "unchanged since the previous request: {unchanged} of {used} bytes")
    }

    /// Writes the entries for a screen too narrow for the table: a heading for each section, then its sources
    /// with their bytes, and omissions on lines of their own.
    fn narrow(&self, f: &mut fmt::Formatter<'_>, lines: &[Line], columns: usize) -> fmt::Result {
        for text in lines.chunk_by(|a, b| a.target == b.target) {
            let bytes: u64 = text.iter().map(|line| line.kept).sum();
            writeln!(f, "{}, {} bytes", title(text[0].target), thousands(bytes))?;
            for section in text.chunk_by(|a, b| a.section == b.section) {
                writeln!(f, "  {}", section[0].section)?;
                for line in section {
                    let (on, off) = self.colour(line.state);
                    let bytes = thousands(line.kept);
                    let room = columns.saturating_sub(6 + bytes.len());
                    let what = shortened(&line.what, room);
                    writeln!(f, "{on}    {what:room$}  {bytes}{off}")?;
                    if line.cut > 0 {
                        let remark = match line.rule.as_str() {
                            "" => String::new(),
                            remark => format!(": {remark}"),
                        };
                        let cut = thousands(line.cut);
                        writeln!(f, "{on}      left out {cut}{remark}{off}")?;
                    }
                }
            }
        }
        self.unchanged(f)
    }

    fn line(
        &self,
        f: &mut fmt::Formatter<'_>,
        line: &Line,
        section_width: usize,
        what_width: usize,
    ) -> fmt::Result {
        let (on, off) = self.colour(line.state);
        let row = format!(
            "  {:section_width$}  {:what_width$}  {:>10}  {:>8}  {:>10}",
            line.section,
            line.what,
            thousands(line.kept),
            thousands(estimate_tokens(line.kept)),
            if line.cut == 0 { String::new() } else { thousands(line.cut) },
        );
        let has_room = |columns| row.chars().count() + 2 + line.rule.chars().count() <= columns;
        match line.rule.as_str() {
            "" => writeln!(f, "{on}{}{off}", row.trim_end()),
            remark if self.style.columns.is_none_or(has_room) => {
                writeln!(f, "{on}{row}  {remark}{off}")
            }
            remark => writeln!(f, "{on}{}\n    {remark}{off}", row.trim_end()),
        }
    }

    fn summary(&self, f: &mut fmt::Formatter<'_>, used: u64) -> fmt::Result {
        let tokens = format!("about {} tokens", thousands(estimate_tokens(used)));
        let bytes = match self.ledger.max_bytes {
            Some(max) => {
                let percent = (u128::from(used) * 100).checked_div(u128::from(max)).unwrap_or(100);
                format!("{} of {} bytes ({percent}%)", thousands(used), thousands(max))
            }
            None => format!("{} bytes", thousands(used)),
        };
        let fits = |columns| bytes.len() + 2 + tokens.len() <= columns;
        let gap = if self.style.columns.is_none_or(fits) { ' ' } else { '\n' };
        writeln!(f, "{bytes},{gap}{tokens}")
    }

    /// Draws a bar of the sent sections, and below it, on the same scale, a bar of the omissions.
    fn bar(&self, f: &mut fmt::Formatter<'_>, lines: &[Line], full: u64) -> fmt::Result {
        const FILLS: [char; 4] = ['█', '▓', '▒', '░'];
        let mut sections: Vec<(&str, u64)> = Vec::new();
        for line in lines {
            match sections.last_mut() {
                Some((section, bytes)) if *section == line.section => *bytes += line.kept,
                _ => sections.push((&line.section, line.kept)),
            }
        }
        let width = self.style.columns.map_or(BAR, |columns| BAR.min(columns.max(12) as u64 - 2));
        let share = |bytes: u64| share(bytes, full, width);
        let mut drawn = 0;
        let mut before = 0;
        write!(f, "[")?;
        for (index, &(_, bytes)) in sections.iter().enumerate() {
            before += bytes;
            let end = share(before);
            write!(f, "{}", fill(FILLS[index % FILLS.len()], end - drawn))?;
            drawn = end;
        }
        write!(f, "{}]", fill('·', width - drawn))?;
        let legend: Vec<String> = sections
            .iter()
            .enumerate()
            .map(|(index, &(section, bytes))| {
                format!("{} {section} {}", FILLS[index % FILLS.len()], thousands(bytes))
            })
            .collect();
        let beside = legend.iter().map(|part| part.chars().count() + 2).sum::<usize>();
        let fits = |columns| width_of(width) + beside <= columns;
        if self.style.columns.is_none_or(fits) {
            writeln!(f, "  {}", legend.join("  "))?;
        } else {
            writeln!(f)?;
            for part in &legend {
                writeln!(f, "  {part}")?;
            }
        }
        let cut: u64 = lines.iter().map(|line| line.cut).sum();
        if cut > 0 {
            let (on, off) = self.colour(State::Dropped);
            let bar = fill('×', share(cut).clamp(1, width));
            writeln!(f, "{on}[{bar}]  left out: {} bytes{off}", thousands(cut))?;
        }
        Ok(())
    }

    fn colour(&self, state: State) -> (&'l str, &'l str) {
        match state {
            State::Kept => ("", ""),
            State::Cut => self.style.cut,
            State::Dropped => self.style.dropped,
        }
    }
}

fn title(target: Target) -> &'static str {
    match target {
        Target::Prompt => "prompt",
        Target::System => "system text",
    }
}

fn fill(character: char, count: u64) -> String {
    (0..count).map(|_| character).collect()
}

/// Returns the number of cells of a bar for a number of bytes.
fn share(bytes: u64, full: u64, width: u64) -> u64 {
    let share = u128::from(bytes) * u128::from(width) / u128::from(full);
    u64::try_from(share).unwrap_or(width).min(width)
}

/// Returns the columns of a bar, brackets included.
fn width_of(bar: u64) -> usize {
    usize::try_from(bar).unwrap_or(0) + 2
}

/// Shortens a name at its start, because the end of a path is the most specific part.
fn shortened(text: &str, columns: usize) -> String {
    let count = text.chars().count();
    if count <= columns {
        return text.to_owned();
    }
    let kept = text.chars().skip(count + 1 - columns.max(1));
    std::iter::once('…').chain(kept).collect()
}

/// Groups entries into lines. Convoke's texts in a section become one line; so do many dropped messages, and
/// the whole envelope.
fn lines(ledger: &Ledger<'_>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut envelope: Option<Line> = None;
    let mut dropped = 0;
    for entry in ledger.entries() {
        if entry.section == ENVELOPE {
            let all =
                envelope.get_or_insert_with(|| Line { kept: 0, ..line(&entry, String::new()) });
            all.kept += entry.kept_bytes();
            continue;
        }
        let what = describe(&entry.source);
        let same_place =
            |line: &Line| line.target == entry.target && line.section == *entry.section;
        if entry.state() == State::Dropped {
            dropped += 1;
            if dropped > LISTED_DROPS
                && let Some(last) = lines.last_mut()
            {
                last.what = format!("… {} more", dropped - LISTED_DROPS + 1);
                last.cut += entry.cut_bytes;
                continue;
            }
        }
        let frame = matches!(entry.source, Source::Convoke { .. });
        if frame
            && let Some(line) =
                lines.iter_mut().rev().take_while(|line| same_place(line)).find(|l| l.what == FRAME)
        {
            line.kept += entry.kept_bytes();
            continue;
        }
        lines.push(line(&entry, if frame { FRAME.to_owned() } else { what }));
    }
    lines.extend(envelope);
    lines
}

/// The name of headers, separators and marks in the table.
const FRAME: &str = "(headers)";

fn line(entry: &Entry<'_>, what: String) -> Line {
    Line {
        target: entry.target,
        section: entry.section.to_string(),
        what,
        state: entry.state(),
        kept: entry.kept_bytes(),
        cut: entry.cut_bytes,
        rule: match (entry.state(), &entry.rule) {
            (State::Kept, Rule::FromThread | Rule::Recognised | Rule::Unattributed)
            | (State::Cut | State::Dropped, _) => entry.rule.to_string(),
            (State::Kept, _) => String::new(),
        },
    }
}

fn describe(source: &Source<'_>) -> String {
    match source {
        Source::Message { id: Some(id), .. }
        | Source::Tool { call: Some(id), .. }
        | Source::Model { id: Some(id), .. } => id.to_string(),
        Source::Message { id: None, index: Some(index) } => format!("message {index}"),
        Source::Message { id: None, index: None } => "the message".to_owned(),
        Source::File { path, lines: None } => path.to_string(),
        Source::File { path, lines: Some((first, last)) } => format!("{path}:{first}-{last}"),
        Source::Setting { name } => name.to_string(),
        Source::Convoke { what } | Source::Program { what } => what.to_string(),
        Source::Tool { index: Some(index), .. } => format!("output {index}"),
        Source::Model { index: Some(index), .. } => format!("answer {index}"),
        Source::History { index: Some(index) } => format!("item {index}"),
        Source::Tool { .. } => "an output".to_owned(),
        Source::Model { .. } => "an answer".to_owned(),
        Source::History { .. } => "the history".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_a_narrow_screen() {
        let mut input =
            crate::prompt_builder::PromptInput::new("claude", "max", "What is left to do?");
        input.system_instruction_text = Some("You are Max, and you review with care.");
        input.team_task = Some("Review the authentication module before the release");
        let output = crate::prompt_builder::build_prompt(&input).unwrap();
        let table = |columns| {
            let style = Style { columns, ..Style::default() };
            Table { ledger: &output.ledger, style }.to_string()
        };
        let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
        for columns in [40, 60, 80] {
            let text = table(Some(columns));
            assert!(widest(&text) <= columns, "{columns}: {text}");
            assert!(text.contains("teamTask"), "{text}");
        }
        assert_eq!(table(Some(200)), table(None));
    }

    #[test]
    fn names_keep_their_end() {
        assert_eq!(shortened("agents/review.md:1-5", 10), "…ew.md:1-5");
        assert_eq!(shortened("short", 10), "short");
    }
}
