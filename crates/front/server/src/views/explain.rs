//! `explain` as a page: which instruction files and skills each agent loads, what is lost, and how to fix it.

use std::path::Path;

use convoke_core::ledger::estimate_tokens;
use convoke_core::{Code, Diagnostic, Severity};
use convoke_explain::matrix::{Cell, Row, rows};
use convoke_explain::{AgentReport, DirectoryReport, Rule, Skill};
use maud::{Markup, html};

use super::text::{exact, line, plain};
use super::{count, number};

/// Renders a report.
pub fn report(report: &DirectoryReport, shown: impl Fn(&Path) -> String) -> Markup {
    html! {
        h1 { "Instruction files and skills" }
        form.search data-search="/explain" {
            label for="path" { "Directory" }
            input id="path" name="path" value=(shown(&report.cwd)) autocomplete="off";
            button type="submit" { "Explain" }
        }
        (matrix(report, &shown))
        (problems(report, &shown))
        @for agent in &report.agents { (self::agent(agent, &shown)) }
    }
}

/// Renders a row for each file, and a column for each agent.
fn matrix(report: &DirectoryReport, shown: &impl Fn(&Path) -> String) -> Markup {
    let rows = rows(report, |path| {
        let found = std::fs::symlink_metadata(path).ok()?;
        found.is_file().then_some(found.len())
    });
    html! {
        @if rows.is_empty() {
            div.empty {
                p { "No instruction files here or above." }
                p.faint { "Codex reads AGENTS.md, Claude Code reads CLAUDE.md and Gemini CLI reads GEMINI.md. Write one, and make the others links to it." }
            }
        } @else {
            div.scroll { table.matrix {
                caption.unseen { "Files by agent" }
                thead { tr {
                    th scope="col" { "File" }
                    th.figure scope="col" { "~tokens" }
                    @for agent in &report.agents { th.cell scope="col" { (agent.edition.title()) " " span.faint { (line(&agent.version)) } } }
                    th scope="col" { "Why" }
                } }
                tbody { @for row in &rows { (file(row, report, shown)) } }
                tfoot { tr {
                    th scope="row" { "Loaded" } td {}
                    @for agent in &report.agents { td.cell { "~" (number(estimate_tokens(agent.bytes_loaded()))) " tokens" br; span.faint { (count(agent.loaded.len() as u64, "file")) } } }
                    td {}
                } }
            } }
            p.faint.legend-line { "1 2 3: the order · ✂ cut · ✗ lost · – kept out · · not read" }
        }
    }
}

fn file(row: &Row, report: &DirectoryReport, shown: &impl Fn(&Path) -> String) -> Markup {
    let base = report.repository.as_deref().unwrap_or(&report.cwd);
    let name = match row.path.strip_prefix(base) {
        Ok(below) => below.display().to_string(),
        Err(_) => shown(&row.path),
    };
    html! {
        tr {
            th.path scope="row" title=(plain(&row.path.display().to_string())) {
                @for _ in 0..row.depth { span.indent { "└ " } }
                (line(&name))
                @if let Some(target) = &row.target { span.faint { " → " (line(&shown(target))) } }
            }
            td.figure { @if let Some(bytes) = row.bytes { (number(estimate_tokens(bytes))) } }
            @for (cell, agent) in row.cells.iter().zip(&report.agents) { (self::cell(*cell, &row.path, agent)) }
            td { @if let Some(why) = &row.why { (line(&why.to_string())) } }
        }
    }
}

/// Renders what an agent does with a file; the rule is its title.
fn cell(cell: Cell, path: &Path, agent: &AgentReport) -> Markup {
    let rule =
        agent.ignored.iter().find(|file| file.path == path).map(|file| file.rule.to_string());
    let (class, mark, words) = match cell {
        Cell::Loaded { place, times, is_whole } => {
            let again = if times > 1 { format!(" ×{times}") } else { String::new() };
            let (class, cut) = if is_whole { ("good", "") } else { ("warn", "✂ ") };
            let words = if is_whole { "loaded" } else { "loaded in part" };
            (class, format!("{cut}{place}{again}"), words.to_owned())
        }
        Cell::NotRead => ("faint", "·".to_owned(), "not read".to_owned()),
        Cell::KeptOut => ("warn", "–".to_owned(), rule.unwrap_or_else(|| "kept out".to_owned())),
        Cell::Lost => ("bad", "✗".to_owned(), rule.unwrap_or_else(|| "lost".to_owned())),
    };
    html! { td.cell.(class) title=(plain(&words)) { span aria-hidden="true" { (mark) } span.unseen { (line(&words)) } } }
}

/// The diagnostics of one code.
struct Finding<'r> {
    code: &'r Code,
    agents: Vec<&'static str>,
    messages: Vec<&'r str>,
}

fn findings(report: &DirectoryReport) -> Vec<Finding<'_>> {
    let mut found: Vec<Finding<'_>> = Vec::new();
    for agent in &report.agents {
        for Diagnostic { code, message, .. } in &agent.diagnostics {
            let at = found.iter().position(|it| it.code == code).unwrap_or_else(|| {
                found.push(Finding { code, agents: Vec::new(), messages: Vec::new() });
                found.len() - 1
            });
            let finding = &mut found[at];
            if !finding.messages.contains(&message.as_str()) {
                finding.messages.push(message);
            }
            if !finding.agents.contains(&agent.edition.title()) {
                finding.agents.push(agent.edition.title());
            }
        }
    }
    found.sort_by_key(|finding| finding.code.severity());
    found
}

/// Renders what is lost or worth knowing, each with its fix.
fn problems(report: &DirectoryReport, shown: &impl Fn(&Path) -> String) -> Markup {
    let findings = findings(report);
    let has_problem = findings.iter().any(|it| it.code.severity() != Severity::Note);
    html! {
        h2 { "Problems and fixes" }
        @if !has_problem { p.good { "✓ Nothing is lost or cut here." } }
        @for Finding { code, agents, messages } in &findings {
            section.finding.(if code.severity() == Severity::Note { "note" } else { "problem-card" }) {
                p { code { (code.to_string()) } " " span.faint { (agents.join(", ")) } }
                @for message in messages {
                    p { (with_commands(&relative(message, report, shown))) }
                }
                @if !code.fix().is_empty() { p.fix { "→ " (with_commands(code.fix())) } }
            }
        }
    }
}

/// Shortens the paths of a message.
fn relative(message: &str, report: &DirectoryReport, shown: &impl Fn(&Path) -> String) -> String {
    let base = report.repository.as_deref().unwrap_or(&report.cwd);
    if base.parent().is_none() {
        return message.to_owned();
    }
    let message = message.replace(&format!("{}/", base.display()), "");
    message.replace(&base.display().to_string(), &shown(base))
}

/// Renders a text in which what stands between backticks is code, with a button that copies it if it is a command.
fn with_commands(text: &str) -> Markup {
    html! {
        @for (at, piece) in text.split('`').enumerate() {
            @if at % 2 == 0 { (exact(piece, false)) }
            @else {
                code { (line(piece)) }
                @if piece.contains(' ') { " " button.quiet.copy type="button" data-copy-text=(plain(piece)) { "Copy" } }
            }
        }
    }
}

fn agent(agent: &AgentReport, shown: &impl Fn(&Path) -> String) -> Markup {
    let path = |path: &Path| shown(path);
    let others = |file: &&convoke_explain::Ignored| !matches!(file.rule, Rule::OtherAgent(_));
    let ignored: Vec<_> = agent.ignored.iter().filter(others).collect();
    html! {
        section {
            h2 { (agent.edition.title()) " " (line(&agent.version)) }
            p.faint {
                "By the rules of " (agent.edition.to_string())
                @if agent.verified == Some(true) { ", verified with the program itself" }
            }
            @if !ignored.is_empty() { details { summary { "Kept out or lost (" (ignored.len()) ")" } ul { @for file in ignored {
                li { span.path { (line(&path(&file.path))) } ": " (line(&file.rule.to_string())) }
            } } } }
            @if !agent.skills.is_empty() || !agent.skills_omitted.is_empty() { (skills(agent, path)) }
        }
    }
}

fn skills(agent: &AgentReport, path: impl Fn(&Path) -> String + Copy) -> Markup {
    let (own, others): (Vec<&Skill>, Vec<&Skill>) =
        agent.skills.iter().partition(|skill| skill.path.is_none());
    html! {
        h3 { "Skills (" (agent.skills.len()) ")" }
        @if let Some(budget) = &agent.skills_budget { p.faint { "The list of skills takes " (number(budget.used)) @if let Some(limit) = budget.limit { " of " (number(limit)) } " " (budget.unit.name()) "." } }
        (skill_table(&others, path))
        @if !own.is_empty() { details { summary { "The program's own (" (own.len()) ")" } (skill_table(&own, path)) } }
        @if !agent.skills_omitted.is_empty() { details { summary { "Not listed (" (agent.skills_omitted.len()) ")" } ul { @for skill in &agent.skills_omitted {
            li { span.path { (line(&path(&skill.path))) } ": " (line(&skill.rule.to_string())) }
        } } } }
    }
}

fn skill_table(skills: &[&Skill], shown: impl Fn(&Path) -> String) -> Markup {
    html! {
        @if !skills.is_empty() { div.scroll { table {
            thead { tr { th scope="col" { "Skill" } th scope="col" { "File" } th.figure scope="col" { "Description, ~tokens" } th.figure scope="col" { "Listed" } } }
            tbody { @for skill in skills { tr {
                td { strong { (line(&skill.name)) } } td.path { @if let Some(path) = &skill.path { (line(&shown(path))) } }
                td.figure { (number(estimate_tokens(skill.description_bytes))) } td.figure { (number(estimate_tokens(skill.description_bytes_loaded))) @if !skill.whole { " (cut)" } }
            } } }
        } } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_a_button_that_copies_it() {
        let html = with_commands("Run `ln -s A B`, not `A`.").into_string();
        assert_eq!(html.matches("data-copy-text=\"ln -s A B\"").count(), 1);
        assert_eq!(html.matches("<button").count(), 1);
        assert!(html.contains("<code>A</code>"), "{html}");
    }
}
