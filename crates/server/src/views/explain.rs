//! `explain` as a page: which instruction files and skills each agent loads.

use std::path::Path;

use convoke_explain::{AgentReport, DirectoryReport};
use maud::{Markup, html};

use super::number;
use super::text::line;

/// Renders a report.
pub fn report(report: &DirectoryReport, shown: impl Fn(&str) -> String) -> Markup {
    html! {
        h1 { "What agents load here" }
        form.search data-search="/explain" {
            label for="path" { "Directory" }
            input id="path" name="path" value=(report.cwd.display()) autocomplete="off";
            button type="submit" { "Explain" }
        }
        @for agent in &report.agents { (self::agent(agent, &shown)) }
    }
}

fn agent(agent: &AgentReport, shown: &impl Fn(&str) -> String) -> Markup {
    let path = |path: &Path| shown(&path.display().to_string());
    html! {
        section {
            h2 { (agent.agent) " " (line(&agent.version)) }
            p { (number(agent.bytes_loaded())) " bytes of instructions in " (agent.loaded.len()) " files" }
            @if !agent.loaded.is_empty() { div.scroll { table {
                caption { "Loaded, in this order" }
                thead { tr { th scope="col" { "File" } th scope="col" { "Bytes" } th scope="col" { "Loaded" } th scope="col" { "Why" } } }
                tbody { @for file in &agent.loaded { tr {
                    td.path { (line(&path(&file.path))) } td.figure { (number(file.bytes)) }
                    td.figure { (number(file.bytes_loaded)) @if !file.whole { " (cut)" } } td { (line(&file.why.to_string())) }
                } } }
            } } }
            @if !agent.ignored.is_empty() { details { summary { "Not loaded (" (agent.ignored.len()) ")" } ul { @for file in &agent.ignored {
                li { span.path { (line(&path(&file.path))) } ": " (line(&file.rule.to_string())) }
            } } } }
            @if !agent.skills.is_empty() || !agent.skills_omitted.is_empty() {
                h3 { "Skills" }
                @if let Some(budget) = &agent.skills_budget { p.faint { (number(budget.used)) @if let Some(limit) = budget.limit { " of " (number(limit)) } " " (format!("{:?}", budget.unit).to_lowercase()) } }
                ul { @for skill in &agent.skills { li { strong { (line(&skill.name)) } " " span.faint { (number(skill.description_bytes_loaded)) " of " (number(skill.description_bytes)) " bytes of its description" @if !skill.whole { " (cut)" } } } } }
                @if !agent.skills_omitted.is_empty() { details { summary { "Omitted (" (agent.skills_omitted.len()) ")" } ul { @for skill in &agent.skills_omitted {
                    li { span.path { (line(&path(&skill.path))) } ": " (line(&skill.rule.to_string())) }
                } } } }
            }
            @if !agent.diagnostics.is_empty() { h3 { "Diagnostics" } ul { @for it in &agent.diagnostics {
                li { code { (it.code.to_string()) } " " (line(&it.message)) @if let Some(at) = &it.path { " " span.path.faint { (line(&shown(at))) } } }
            } } }
        }
    }
}
