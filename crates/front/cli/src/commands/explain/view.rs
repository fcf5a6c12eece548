//! The report as text: the table of files, the sizes, problems and fixes.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

use convoke_core::ledger::estimate_tokens;
use convoke_explain::matrix::{self, Cell, Row};
use convoke_explain::{AgentReport, DirectoryReport, Limit, LoadReason, Rule};
use unicode_width::UnicodeWidthStr;

use super::findings::{Finding, Findings};
use super::installed::Installed;
use crate::figures::{begun, number, padded, shortened};
use crate::terminal::{self, Paint, Screen, Tone};

const MIN_WIDTH: usize = 40;
/// The minimum width of a table with a column for each agent.
const SIDE_BY_SIDE: usize = 64;
const MAX_WIDTH: usize = 120;
const DEFAULT_WIDTH: usize = 80;
/// The maximum number of rows.
const MAX_ROWS: usize = 40;
const MAX_MESSAGES: usize = 6;
pub(super) const COLUMN: usize = 9;
pub(super) const SIZE_COLUMN: usize = 10;
/// The minimum width of the column of reasons.
const MIN_WHY: usize = 16;
const MIN_BAR: usize = 4;
const MAX_BAR: usize = 20;

/// The report with its layout.
pub struct View<'a> {
    pub report: &'a DirectoryReport,
    pub home: &'a Path,
    pub installed: &'a Installed,
    pub paint: Paint,
    pub width: usize,
    /// Whether only the files and the problems are shown, and the rest is counted.
    pub is_brief: bool,
}

/// Returns the width of the report on a stream.
pub fn width(stream: &Screen) -> usize {
    terminal::columns(stream).unwrap_or(DEFAULT_WIDTH).clamp(MIN_WIDTH, MAX_WIDTH)
}

impl View<'_> {
    /// Renders the report.
    pub fn render(&self) -> String {
        let mut out = String::new();
        self.heading(&mut out);
        let rows = matrix::rows(self.report, size_on_disk);
        if rows.is_empty() {
            self.nothing_here(&mut out);
        } else {
            self.table(&mut out, &rows);
            self.sizes(&mut out);
        }
        let findings = Findings::new(self.report);
        if self.is_brief {
            self.brief_findings(&mut out, &findings);
            return out;
        }
        if !rows.is_empty() {
            self.kept_out(&mut out);
        }
        self.skills(&mut out);
        self.findings(&mut out, &findings, !rows.is_empty());
        out
    }

    fn heading(&self, out: &mut String) {
        let cwd = self.home_relative(&self.report.cwd);
        let place = match &self.report.repository {
            Some(root) if *root == self.report.cwd => "a repository".to_owned(),
            Some(root) => format!("in repository {}", self.home_relative(root)),
            None => "not in a repository".to_owned(),
        };
        let title = self.paint.text(Tone::Strong, &cwd);
        push_line(out, &format!("{title}  {}", self.paint.text(Tone::Faint, place)));
        for agent in &self.report.agents {
            if let Some(note) = self.version_note(agent) {
                push_line(out, &self.paint.text(Tone::Faint, note));
            }
        }
        out.push('\n');
    }

    /// Returns a note if the rules were measured on another version than the installed one.
    fn version_note(&self, agent: &AgentReport) -> Option<String> {
        let edition = agent.edition;
        let (title, measured) = (edition.title(), edition.version());
        let installed = self.installed.version(edition)?;
        if is_same_version(installed, measured) {
            return None;
        }
        let is_unknown = edition.is_newest() && edition.is_older_than(installed);
        Some(if is_unknown {
            format!(
                "{title} {installed} is installed; the newest known rules are those of {measured}"
            )
        } else {
            format!("{title} {installed} is installed; the rules of {measured} were applied")
        })
    }

    fn nothing_here(&self, out: &mut String) {
        let text = "No instruction files here or above. Codex reads AGENTS.md, Claude Code reads \
                    CLAUDE.md and Gemini CLI reads GEMINI.md; write one and make the others links to it.";
        for line in wrapped(text, self.width) {
            push_line(out, &line);
        }
    }

    /// Returns whether the agents are listed below each file, and not in columns.
    pub(super) fn is_narrow(&self) -> bool {
        self.width < SIDE_BY_SIDE
    }

    fn table(&self, out: &mut String, rows: &[Row]) {
        let agents = &self.report.agents;
        if self.is_narrow() {
            for agent in agents {
                let title = format!("{} {}", short_title(agent), agent.edition.version());
                push_line(out, &self.paint.text(Tone::Strong, title));
            }
            for row in rows.iter().take(MAX_ROWS) {
                self.narrow_row(out, row);
            }
            self.after_rows(out, rows);
            return;
        }
        let label_width = self.width - 2 - SIZE_COLUMN - COLUMN * agents.len();
        let label_width = self.widest_label(rows, label_width);
        let room = self.width - 2 - label_width - SIZE_COLUMN - COLUMN * agents.len();
        for heading in [|it: &AgentReport| short_title(it), |it: &AgentReport| it.edition.version()]
        {
            let mut line = " ".repeat(2 + label_width + SIZE_COLUMN);
            for agent in agents {
                let _ = write!(line, "{:>COLUMN$}", heading(agent));
            }
            push_line(out, &self.paint.text(Tone::Strong, line.trim_end()));
        }
        for row in rows.iter().take(MAX_ROWS) {
            self.row(out, row, label_width, room);
        }
        self.after_rows(out, rows);
    }

    /// Writes the number of rows that are not shown, and the legend.
    fn after_rows(&self, out: &mut String, rows: &[Row]) {
        if rows.len() > MAX_ROWS {
            let more = format!("  … and {} more; --json lists them all", rows.len() - MAX_ROWS);
            push_line(out, &self.paint.text(Tone::Faint, more));
        }
        let legend = "1 2 3 order · ✂ cut · ✗ lost · – kept out · · not read";
        for line in wrapped(legend, self.width - 2) {
            push_line(out, &format!("  {}", self.paint.text(Tone::Faint, line)));
        }
        out.push('\n');
    }

    /// Writes a file and its size in one line, and below it the treatment by each agent.
    fn narrow_row(&self, out: &mut String, row: &Row) {
        let size = row.bytes.map(bytes).unwrap_or_default();
        let room = self.width.saturating_sub(4 + size.width());
        let label = padded(&shortened(&self.label(row), room), room);
        push_line(out, &format!("  {label}  {}", self.paint.text(Tone::Faint, size)));
        let cells = row.cells.iter().zip(&self.report.agents);
        let cells = cells.map(|(cell, agent)| {
            let (tone, text) = shown_cell(*cell);
            format!("{} {}", short_title(agent), self.paint.text(tone, text))
        });
        push_line(out, &format!("    {}", cells.collect::<Vec<_>>().join("  ")));
    }

    /// Returns the width of the widest label, at most `limit`; stops at the first row that reaches it.
    fn widest_label(&self, rows: &[Row], limit: usize) -> usize {
        let mut widest = 20.min(limit);
        for row in rows {
            if widest == limit {
                break;
            }
            widest = self.label(row).width().clamp(widest, limit);
        }
        widest
    }

    fn label(&self, row: &Row) -> String {
        let indent = match row.depth {
            0 => String::new(),
            depth => format!("{}└ ", "  ".repeat(depth - 1)),
        };
        let link = match &row.target {
            Some(target) if target.parent() == row.path.parent() => {
                let name = target.file_name().unwrap_or_default();
                format!(" → {}", harmless(&name.to_string_lossy()))
            }
            Some(target) => format!(" → {}", self.place_relative(target)),
            None => String::new(),
        };
        format!("{indent}{}{link}", self.place_relative(&row.path))
    }

    fn row(&self, out: &mut String, row: &Row, label_width: usize, room: usize) {
        let label = padded(&shortened(&self.label(row), label_width), label_width);
        let is_read = row.cells.iter().any(|cell| *cell != Cell::NotRead);
        let label = if is_read { label } else { self.paint.text(Tone::Faint, label) };
        let size = row.bytes.map(bytes).unwrap_or_default();
        let mut line =
            format!("  {label}{}", self.paint.text(Tone::Faint, format!("{size:>SIZE_COLUMN$}")));
        for cell in &row.cells {
            let (tone, text) = shown_cell(*cell);
            let gap = COLUMN.saturating_sub(text.width());
            let _ = write!(line, "{}{}", " ".repeat(gap), self.paint.text(tone, text));
        }
        if let Some(why) = row.why.as_ref().filter(|_| room >= MIN_WHY) {
            let why = begun(&harmless(&short_why(why)), room - 3);
            let _ = write!(line, "   {}", self.paint.text(Tone::Faint, why));
        }
        push_line(out, &line);
    }

    /// Writes the bytes that each agent loads, with a bar against its limit.
    fn sizes(&self, out: &mut String) {
        let agents = &self.report.agents;
        let title =
            |agent: &AgentReport| format!("{} {}", agent.edition.title(), agent.edition.version());
        let title_width = agents.iter().map(|agent| title(agent).width()).max().unwrap_or_default();
        let mut fills: Vec<_> = agents.iter().map(Fill::new).collect();
        let beside = title_width + 33 + 3;
        let words_width = fills.iter().map(|fill| fill.words.width()).max().unwrap_or_default();
        let mut room = self.width.saturating_sub(beside + words_width);
        if room < MIN_BAR {
            // In a narrow terminal the bar is shown instead of the limit.
            fills.iter_mut().for_each(Fill::shorten);
            room = self.width.saturating_sub(beside + "100%".len());
        }
        for (agent, fill) in agents.iter().zip(&fills) {
            let total = agent.bytes_loaded();
            let files = match agent.loaded.len() {
                1 => "1 file".to_owned(),
                count => format!("{count} files"),
            };
            let tokens = format!("~{} tok", number(estimate_tokens(total)));
            let title = self.paint.text(Tone::Strong, padded(&title(agent), title_width));
            let bar = self.bar(fill.percent, room.min(MAX_BAR));
            let words = self.paint.text(Tone::Faint, &fill.words);
            if self.is_narrow() {
                push_line(out, &format!("  {title}"));
                push_line(out, &format!("    {files}, {}, {tokens}  {words}", bytes(total)));
                continue;
            }
            let line =
                format!("  {title}{files:>9}{:>10}{tokens:>12}  {bar} {words}", bytes(total));
            push_line(out, &line);
        }
        let has_limit_each = agents.iter().any(|it| matches!(it.limit, Some(Limit::EachFile(_))));
        let legend = if has_limit_each {
            "tok: tokens, estimated at four bytes a token · each: the limit of one file"
        } else {
            "tok: tokens, estimated at four bytes a token"
        };
        for line in wrapped(legend, self.width - 2) {
            push_line(out, &format!("  {}", self.paint.text(Tone::Faint, line)));
        }
    }

    pub(super) fn bar(&self, percent: u64, cells: usize) -> String {
        let percent = usize::try_from(percent).unwrap_or(100);
        let filled = (percent * cells).div_ceil(100);
        let tone = match percent {
            100 => Tone::Bad,
            75.. => Tone::Warning,
            _ => Tone::Good,
        };
        let empty = self.paint.text(Tone::Faint, "░".repeat(cells - filled));
        format!("{}{empty}", self.paint.text(tone, "█".repeat(filled)))
    }

    /// Writes the excluded files, with the rule.
    fn kept_out(&self, out: &mut String) {
        let mut entries: Vec<KeptOut<'_>> = Vec::new();
        let mut known: HashMap<(&OsStr, String), usize> = HashMap::new();
        for agent in &self.report.agents {
            for file in &agent.ignored {
                if matches!(file.rule, Rule::OtherAgent(_)) {
                    continue;
                }
                let rule = self.shown(&file.rule.to_string());
                let index = *known.entry((file.path.as_os_str(), rule)).or_insert_with_key(|key| {
                    let (path, rule) = (&file.path, key.1.clone());
                    let is_loss = file.rule.is_loss();
                    entries.push(KeptOut { path, rule, is_loss, agents: Vec::new() });
                    entries.len() - 1
                });
                entries[index].agents.push(short_title(agent));
            }
        }
        if entries.is_empty() {
            return;
        }
        out.push('\n');
        push_line(out, &self.paint.text(Tone::Strong, "Kept out"));
        let total = entries.len();
        for KeptOut { path, rule, is_loss, mut agents } in entries.into_iter().take(MAX_ROWS) {
            agents.dedup();
            let path = self.place_relative(path);
            let mark = if is_loss {
                self.paint.text(Tone::Bad, "✗")
            } else {
                self.paint.text(Tone::Warning, "–")
            };
            let agents = format!("{}: ", agents.join(", "));
            let text = format!("{path}  {agents}{rule}");
            let mut lines = wrapped(&text, self.width - 4).into_iter();
            let first = lines.next().unwrap_or_default();
            push_line(out, &format!("  {mark} {first}"));
            for line in lines {
                push_line(out, &format!("      {}", line.trim_start()));
            }
        }
        if total > MAX_ROWS {
            let more = format!("  … and {} more; --json lists them all", total - MAX_ROWS);
            push_line(out, &self.paint.text(Tone::Faint, more));
        }
    }

    fn findings(&self, out: &mut String, findings: &Findings, has_files: bool) {
        if findings.problems.is_empty() && has_files {
            out.push('\n');
            push_line(out, &self.paint.text(Tone::Good, "✓ Nothing is lost or cut here."));
        }
        self.finding_list(out, "Problems", Tone::Bad, &findings.problems);
        self.finding_list(out, "Good to know", Tone::Warning, &findings.notes);
    }

    /// Writes each problem in one line, and counts what is left out.
    fn brief_findings(&self, out: &mut String, findings: &Findings) {
        out.push('\n');
        if findings.problems.is_empty() {
            push_line(out, &self.paint.text(Tone::Good, "✓ Nothing is lost or cut here."));
        }
        for finding in &findings.problems {
            let first = finding.messages.first().map(|it| self.shown(it)).unwrap_or_default();
            let more = match finding.messages.len() {
                0 | 1 => String::new(),
                many => format!(" (and {} more)", many - 1),
            };
            let text = format!("{}: {first}{more}", finding.agents.join(", "));
            let code = self.paint.text(Tone::Bad, &finding.code);
            let room = self.width.saturating_sub(4 + finding.code.name().width());
            push_line(out, &format!("  {code}  {}", begun(&text, room)));
        }
        let agents = &self.report.agents;
        let kept_out = |agent: &AgentReport| {
            agent.ignored.iter().filter(|it| !matches!(it.rule, Rule::OtherAgent(_))).count()
        };
        let counts = [
            (agents.iter().map(kept_out).sum::<usize>(), "file kept out", "files kept out"),
            (agents.iter().map(|agent| agent.skills.len()).sum(), "skill", "skills"),
            (findings.notes.len(), "note", "notes"),
        ];
        let counted = counts.iter().filter(|(many, ..)| *many > 0);
        let counted: Vec<String> = counted
            .map(|(many, one, several)| {
                format!("{many} {}", if *many == 1 { one } else { several })
            })
            .collect();
        let mut rest = "`convoke explain --full` shows the fixes".to_owned();
        if !counted.is_empty() {
            rest = format!("{rest}, {}", counted.join(", "));
        }
        for line in wrapped(&rest, self.width) {
            push_line(out, &self.paint.text(Tone::Faint, line));
        }
    }

    fn finding_list(&self, out: &mut String, title: &str, tone: Tone, findings: &[Finding]) {
        if findings.is_empty() {
            return;
        }
        out.push('\n');
        push_line(out, &self.paint.text(Tone::Strong, title));
        for finding in findings {
            let agents = finding.agents.join(", ");
            let code = self.paint.text(tone, &finding.code);
            push_line(out, &format!("  {code}  {}", self.paint.text(Tone::Faint, agents)));
            for message in finding.messages.iter().take(MAX_MESSAGES) {
                for line in wrapped(&self.shown(message), self.width - 4) {
                    push_line(out, &format!("    {line}"));
                }
            }
            if finding.messages.len() > MAX_MESSAGES {
                let more = format!("    … and {} more", finding.messages.len() - MAX_MESSAGES);
                push_line(out, &self.paint.text(Tone::Faint, more));
            }
            for (index, line) in wrapped(finding.code.fix(), self.width - 6).iter().enumerate() {
                let arrow = if index == 0 { "→" } else { " " };
                let line = format!("{arrow} {line}");
                push_line(out, &format!("    {}", self.paint.text(Tone::Action, line)));
            }
        }
    }

    /// Returns a path relative to the repository or the home directory, else in full.
    pub(super) fn place_relative(&self, path: &Path) -> String {
        let base = self.report.repository.as_deref().unwrap_or(&self.report.cwd);
        match path.strip_prefix(base) {
            Ok(below) if base.parent().is_some() => harmless(&below.to_string_lossy()),
            _ => self.home_relative(path),
        }
    }

    fn home_relative(&self, path: &Path) -> String {
        match path.strip_prefix(self.home) {
            Ok(below) if below.as_os_str().is_empty() => "~".to_owned(),
            Ok(below) if self.home.parent().is_some() => {
                harmless(&format!("~/{}", below.display()))
            }
            _ => harmless(&path.to_string_lossy()),
        }
    }

    /// Shortens the paths of a message in the same way.
    fn shown(&self, message: &str) -> String {
        let base = self.report.repository.as_deref().unwrap_or(&self.report.cwd);
        let mut message = message.to_owned();
        for (path, short) in [(base, ""), (self.home, "~/")] {
            if path.parent().is_some() {
                message = message.replace(&format!("{}/", path.display()), short);
            }
        }
        harmless(&message)
    }
}

/// Returns the size of a file; nothing for a link or a directory.
fn size_on_disk(path: &Path) -> Option<u64> {
    let found = std::fs::symlink_metadata(path).ok()?;
    found.is_file().then_some(found.len())
}

/// Returns the text of a cell and its tone.
fn shown_cell(cell: Cell) -> (Tone, String) {
    match cell {
        Cell::Loaded { place, times: 1, is_whole: true } => (Tone::Good, place.to_string()),
        Cell::Loaded { place, times, is_whole: true } => {
            (Tone::Warning, format!("{place} ×{times}"))
        }
        Cell::Loaded { place, .. } => (Tone::Warning, format!("✂ {place}")),
        Cell::NotRead => (Tone::Faint, "·".to_owned()),
        Cell::KeptOut => (Tone::Warning, "–".to_owned()),
        Cell::Lost => (Tone::Bad, "✗".to_owned()),
    }
}

/// A file that is excluded by a rule for some agents.
struct KeptOut<'a> {
    path: &'a Path,
    rule: String,
    is_loss: bool,
    agents: Vec<&'static str>,
}

/// The used share of an agent's limit.
struct Fill {
    percent: u64,
    words: String,
}

impl Fill {
    fn new(agent: &AgentReport) -> Self {
        let loaded = agent.loaded.iter();
        let (used, limit, whose) = match agent.limit {
            None => return Self { percent: 0, words: String::new() },
            Some(Limit::Shared(limit)) => {
                let project = loaded.filter(|file| file.why != LoadReason::User);
                (project.map(|file| file.bytes_loaded).sum(), limit, "")
            }
            Some(Limit::EachFile(limit)) => {
                let largest = loaded.map(|file| file.bytes_loaded).max();
                (largest.unwrap_or_default(), limit, " each")
            }
            Some(Limit::Total(limit)) => (agent.bytes_loaded(), limit, ""),
        };
        let is_cut = agent.loaded.iter().any(|file| !file.whole && file.why != LoadReason::Memory);
        let percent = used.saturating_mul(100).checked_div(limit).unwrap_or(100).min(100);
        let percent = if is_cut { 100 } else { percent };
        Self { percent, words: format!("{percent:>3}% of {}{whose}", bytes(limit)) }
    }

    fn shorten(&mut self) {
        self.words = format!("{:>3}%", self.percent);
    }
}

/// Returns a short reason why a file is loaded.
fn short_why(why: &LoadReason) -> String {
    match why {
        LoadReason::Managed => "managed".to_owned(),
        LoadReason::User => "user".to_owned(),
        LoadReason::Rule => "rule".to_owned(),
        LoadReason::MatchingRule(_) => "matching rule".to_owned(),
        LoadReason::Project => "project".to_owned(),
        LoadReason::Local => "local".to_owned(),
        LoadReason::ExtraDirectory => "added directory".to_owned(),
        LoadReason::Memory => "memory".to_owned(),
        LoadReason::Extension(name) => format!("extension {name}"),
        LoadReason::Import { by, line, .. } => {
            let importer = by.file_name().unwrap_or_default().to_string_lossy();
            format!("import, line {line} of {importer}")
        }
        LoadReason::Read(_) => "after a read".to_owned(),
        LoadReason::Fallback => "fallback name".to_owned(),
        other => other.to_string(),
    }
}

pub(super) fn short_title(agent: &AgentReport) -> &'static str {
    match agent.agent {
        "claude" => "Claude",
        "gemini" => "Gemini",
        _ => "Codex",
    }
}

fn is_same_version(installed: &str, measured: &str) -> bool {
    let rest = installed.strip_prefix(measured);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

pub(super) fn push_line(out: &mut String, line: &str) {
    out.push_str(line.trim_end());
    out.push('\n');
}

/// Removes control characters from a name.
fn harmless(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { '\u{fffd}' } else { it }).collect()
}

/// Formats a number of bytes in at most nine columns.
pub(super) fn bytes(count: u64) -> String {
    const KIB: u64 = 1024;
    const MIB: u64 = KIB * KIB;
    let tenths = |unit: u64| format!("{}.{}", count / unit, count % unit * 10 / unit);
    match count {
        0..10_000 => format!("{} B", number(count)),
        10_000..MIB => format!("{} KiB", tenths(KIB)),
        _ => format!("{} MiB", tenths(MIB)),
    }
}

/// Wraps a text at spaces; a word wider than a line stays whole.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else {
            break;
        };
        if line.is_empty() {
            line.push_str(word);
        } else if line.width() + 1 + word.width() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
