//! The skills side by side: a row for each file, a column for each agent, and the budget of each list.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use convoke_explain::{AgentReport, DirectoryReport, SkillRule, SkillSource};
use unicode_width::UnicodeWidthStr;

use super::view::{COLUMN, SIZE_COLUMN, View, bytes, push_line, wrapped};
use crate::figures::{number, padded, shortened};
use crate::terminal::Tone;

/// The maximum number of rows.
const MAX_ROWS: usize = 16;

/// A skill, and its treatment by each agent.
#[derive(Debug)]
struct Row {
    path: PathBuf,
    bytes: Option<u64>,
    cells: Vec<Cell>,
}

/// The treatment of one skill by one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    /// Listed, with `loaded` bytes of its description.
    Listed { loaded: u64, is_whole: bool },
    /// Excluded by a rule, possibly on purpose.
    KeptOut,
    /// Lost, certainly not on purpose.
    Lost,
    /// The agent does not look there.
    NotRead,
}

impl Cell {
    /// Returns the text of the cell and its tone.
    fn shown(self) -> (Tone, String) {
        match self {
            Self::Listed { is_whole: true, .. } => (Tone::Good, "✓".to_owned()),
            Self::Listed { loaded, .. } => (Tone::Warning, format!("✂ {}", number(loaded))),
            Self::KeptOut => (Tone::Warning, "–".to_owned()),
            Self::Lost => (Tone::Bad, "✗".to_owned()),
            Self::NotRead => (Tone::Faint, "·".to_owned()),
        }
    }

    fn is_loss(self) -> bool {
        matches!(self, Self::Lost | Self::Listed { is_whole: false, .. })
    }
}

/// Arranges the skills that are not built in, in the order of the agents' lists.
fn rows(report: &DirectoryReport) -> Vec<Row> {
    let count = report.agents.len();
    let mut rows: Vec<Row> = Vec::new();
    let mut known: HashMap<PathBuf, usize> = HashMap::new();
    let mut row = |rows: &mut Vec<Row>, key: &Path, path: &Path| {
        *known.entry(key.to_owned()).or_insert_with(|| {
            let (path, cells) = (path.to_owned(), vec![Cell::NotRead; count]);
            rows.push(Row { path, bytes: None, cells });
            rows.len() - 1
        })
    };
    for (column, agent) in report.agents.iter().enumerate() {
        let own = agent.skills.iter().filter(|it| it.source != SkillSource::Builtin);
        for skill in own {
            let (Some(path), Some(real)) = (&skill.path, &skill.real_path) else { continue };
            let index = row(&mut rows, real, path);
            rows[index].bytes.get_or_insert(skill.description_bytes);
            let (loaded, is_whole) = (skill.description_bytes_loaded, skill.whole);
            rows[index].cells[column] = Cell::Listed { loaded, is_whole };
        }
    }
    for (column, agent) in report.agents.iter().enumerate() {
        for skill in &agent.skills_omitted {
            let index = row(&mut rows, &skill.path, &skill.path);
            rows[index].cells[column] = cell(&skill.rule);
        }
    }
    rows
}

/// Returns what a rule makes of a skill that is not listed.
fn cell(rule: &SkillRule) -> Cell {
    match rule {
        SkillRule::Unsearched => Cell::NotRead,
        SkillRule::SwitchedOff(_)
        | SkillRule::Hidden(_)
        | SkillRule::Conditional(_)
        | SkillRule::Duplicate(_) => Cell::KeptOut,
        _ => Cell::Lost,
    }
}

impl View<'_> {
    /// Writes the skills, unless all of them are built in.
    pub(super) fn skills(&self, out: &mut String) {
        let mut rows = rows(self.report);
        if rows.is_empty() {
            return;
        }
        let total = rows.len();
        if total > MAX_ROWS {
            // If there are many, those with a loss come first.
            rows.sort_by_key(|row| !row.cells.iter().any(|cell| cell.is_loss()));
            rows.truncate(MAX_ROWS);
        }
        out.push('\n');
        let agents = &self.report.agents;
        if self.is_narrow() {
            push_line(out, &self.paint.text(Tone::Strong, "Skills"));
            for row in &rows {
                self.narrow_skill(out, row);
            }
            self.after_skills(out, total, rows.len());
            return;
        }
        let room = self.width - 2 - SIZE_COLUMN - COLUMN * agents.len();
        let label = |row: &Row| self.place_relative(row.path.parent().unwrap_or(&row.path));
        let widest = rows.iter().map(|row| label(row).width()).max().unwrap_or_default();
        let label_width = widest.clamp(20.min(room), room);
        let mut heading = padded("Skills", 2 + label_width + SIZE_COLUMN);
        for agent in agents {
            let _ = write!(heading, "{:>COLUMN$}", super::view::short_title(agent));
        }
        push_line(out, &self.paint.text(Tone::Strong, heading.trim_end()));
        for row in &rows {
            let label = padded(&shortened(&label(row), label_width), label_width);
            let size = row.bytes.map(bytes).unwrap_or_default();
            let size = self.paint.text(Tone::Faint, format!("{size:>SIZE_COLUMN$}"));
            let mut line = format!("  {label}{size}");
            for cell in &row.cells {
                let (tone, text) = cell.shown();
                let gap = COLUMN.saturating_sub(text.width());
                let _ = write!(line, "{}{}", " ".repeat(gap), self.paint.text(tone, text));
            }
            push_line(out, &line);
        }
        self.after_skills(out, total, rows.len());
    }

    /// Writes a skill and its size in one line, and below it the treatment by each agent.
    fn narrow_skill(&self, out: &mut String, row: &Row) {
        let size = row.bytes.map(bytes).unwrap_or_default();
        let room = self.width.saturating_sub(4 + size.width());
        let label = self.place_relative(row.path.parent().unwrap_or(&row.path));
        let label = padded(&shortened(&label, room), room);
        push_line(out, &format!("  {label}  {}", self.paint.text(Tone::Faint, size)));
        let cells = row.cells.iter().zip(&self.report.agents);
        let cells = cells.map(|(cell, agent)| {
            let (tone, text) = cell.shown();
            format!("{} {}", super::view::short_title(agent), self.paint.text(tone, text))
        });
        push_line(out, &format!("    {}", cells.collect::<Vec<_>>().join("  ")));
    }

    /// Writes the number of skills that are not shown, the legend, and the budget of each agent.
    fn after_skills(&self, out: &mut String, total: usize, shown: usize) {
        if total > shown {
            let more = format!("  … and {} more; --json lists them all", total - shown);
            push_line(out, &self.paint.text(Tone::Faint, more));
        }
        let legend = "✓ listed · ✂ bytes of the description that arrive · ✗ lost · – kept out";
        for line in wrapped(legend, self.width - 2) {
            push_line(out, &format!("  {}", self.paint.text(Tone::Faint, line)));
        }
        for agent in &self.report.agents {
            push_line(out, &self.skill_budget(agent));
        }
        self.lost_skills(out);
    }

    /// Writes why skills are lost.
    fn lost_skills(&self, out: &mut String) {
        for agent in &self.report.agents {
            let lost = agent.skills_omitted.iter().filter(|skill| cell(&skill.rule) == Cell::Lost);
            for skill in lost.take(MAX_ROWS) {
                let name = self.place_relative(skill.path.parent().unwrap_or(&skill.path));
                let title = super::view::short_title(agent);
                let text = format!("✗ {name}  {title}: {}", skill.rule);
                for line in wrapped(&text, self.width - 2) {
                    push_line(out, &format!("  {}", self.paint.text(Tone::Faint, line)));
                }
            }
        }
    }

    /// Returns the size of an agent's list, with a bar against its limit.
    fn skill_budget(&self, agent: &AgentReport) -> String {
        let own = agent.skills.iter().filter(|it| it.source == SkillSource::Builtin).count();
        let skills = match agent.skills.len() {
            1 => "1 skill".to_owned(),
            count => format!("{count} skills"),
        };
        let title = format!("{} {}", agent.edition.title(), agent.edition.version());
        let title = if self.is_narrow() { title } else { padded(&title, 19) };
        let title = self.paint.text(Tone::Strong, title);
        let is_narrow = self.width < 80;
        let budget = agent.skills_budget.map(|budget| match budget.limit {
            Some(limit) => {
                let percent = (budget.used * 100).checked_div(limit).unwrap_or(100).min(100);
                let unit = budget.unit.name();
                let what = if self.width < 84 { "" } else { "list: " };
                let words = format!("{what}{} of {} {unit}", number(budget.used), number(limit));
                let bar = if is_narrow { String::new() } else { self.bar(percent, 5) + " " };
                format!("  {bar}{}", self.paint.text(Tone::Faint, words))
            }
            None => format!("  {}", self.paint.text(Tone::Faint, "no limit")),
        });
        let own = if is_narrow { String::new() } else { format!(", {own} built in") };
        if self.is_narrow() {
            return format!("  {title}\n    {skills}{}", budget.unwrap_or_default());
        }
        format!("  {title}{skills:>11}{own}{}", budget.unwrap_or_default())
    }
}
