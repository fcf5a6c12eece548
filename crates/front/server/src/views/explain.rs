//! `explain` as a page: which instruction files and skills each agent loads.

use std::path::Path;

use convoke_explain::{AgentReport, DirectoryReport, Skill};
use maud::{Markup, html};

use super::text::line;
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
        @for agent in &report.agents { (self::agent(agent, &shown)) }
    }
}

fn agent(agent: &AgentReport, shown: &impl Fn(&Path) -> String) -> Markup {
    let path = |path: &Path| shown(path);
    html! {
        section {
            h2 { (agent.agent) " " (line(&agent.version)) }
            p {
                (number(agent.bytes_loaded())) " bytes of instructions in " (count(agent.loaded.len() as u64, "file"))
                span.faint { ", by the rules of " (agent.edition.to_string()) @if agent.verified == Some(true) { ", verified with the program itself" } }
            }
            @if !agent.loaded.is_empty() { div.scroll { table {
                caption { "Loaded, in this order" }
                thead { tr { th scope="col" { "File" } th.figure scope="col" { "Bytes" } th.figure scope="col" { "Loaded" } th scope="col" { "Why" } } }
                tbody { @for file in &agent.loaded { tr {
                    td.path { (line(&path(&file.path))) } td.figure { (number(file.bytes)) }
                    td.figure { (number(file.bytes_loaded)) @if !file.whole { " (cut)" } } td { (line(&file.why.to_string())) }
                } } }
            } } }
            @if !agent.ignored.is_empty() { details { summary { "Not loaded (" (agent.ignored.len()) ")" } ul { @for file in &agent.ignored {
                li { span.path { (line(&path(&file.path))) } ": " (line(&file.rule.to_string())) }
            } } } }
            @if !agent.skills.is_empty() || !agent.skills_omitted.is_empty() {
                h3 { "Skills (" (agent.skills.len()) ")" }
                @if let Some(budget) = &agent.skills_budget { p.faint { (number(budget.used)) @if let Some(limit) = budget.limit { " of " (number(limit)) } " " (budget.unit.name()) } }
                @let (own, others): (Vec<&Skill>, Vec<&Skill>) = agent.skills.iter().partition(|skill| skill.path.is_none());
                (skills(&others, path))
                @if !own.is_empty() { details { summary { "The program's own (" (own.len()) ")" } (skills(&own, path)) } }
                @if !agent.skills_omitted.is_empty() { details { summary { "Omitted (" (agent.skills_omitted.len()) ")" } ul { @for skill in &agent.skills_omitted {
                    li { span.path { (line(&path(&skill.path))) } ": " (line(&skill.rule.to_string())) }
                } } } }
            }
            @if !agent.diagnostics.is_empty() { h3 { "Diagnostics" } ul { @for it in &agent.diagnostics {
                li { code { (it.code.to_string()) } " " (line(&it.message)) @if let Some(at) = &it.path { " " span.path.faint { (line(&shown(Path::new(at)))) } } }
            } } }
        }
    }
}

fn skills(skills: &[&Skill], shown: impl Fn(&Path) -> String) -> Markup {
    html! {
        @if !skills.is_empty() { div.scroll { table {
            thead { tr { th scope="col" { "Skill" } th scope="col" { "File" } th.figure scope="col" { "Description" } th.figure scope="col" { "Loaded" } } }
            tbody { @for skill in skills { tr {
                td { strong { (line(&skill.name)) } } td.path { @if let Some(path) = &skill.path { (line(&shown(path))) } }
                td.figure { (number(skill.description_bytes)) " bytes" } td.figure { (number(skill.description_bytes_loaded)) @if !skill.whole { " (cut)" } }
            } } }
        } } }
    }
}
