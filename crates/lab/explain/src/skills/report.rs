//! Diagnostics about the list of skills.

use std::path::{Path, PathBuf};

use convoke_core::diagnostic::Diagnostic;

use super::{Skill, SkillRule};
use crate::diagnostics;
use crate::report::AgentReport;

/// Adds the diagnostics about an agent's skills; `unsearched` are places with skills that it does not read.
pub fn report(report: &mut AgentReport, unsearched: &[(PathBuf, usize)]) {
    report_cut(report);
    let omitted = std::mem::take(&mut report.skills_omitted);
    let dropped: Vec<_> = omitted.iter().filter(|it| it.rule == SkillRule::OverBudget).collect();
    if let Some(first) = dropped.first() {
        let names = named(dropped.iter().filter_map(|it| it.name.as_deref()));
        let budget = budget(report);
        let message =
            format!("{} skills are not listed, not even by name: {names}{budget}", dropped.len());
        let diagnostic = Diagnostic::new(diagnostics::SKILL_DROPPED, message);
        report.diagnose(
            diagnostic.with_count(dropped.len() as u64).at_path(first.path.to_string_lossy()),
        );
    }
    for skill in &omitted {
        let path = skill.path.display();
        let name = skill.name.as_deref().unwrap_or_default();
        match &skill.rule {
            SkillRule::Shadowed(Some(by)) => {
                let message = format!(
                    "the skill {name} of {path} is not listed: {} has the same name",
                    by.display()
                );
                report.warn(diagnostics::SKILL_SHADOWED, &skill.path, message);
            }
            SkillRule::Shadowed(None) => {
                let message =
                    format!("the skill {name} of {path} is not listed: another has the same name");
                report.warn(diagnostics::SKILL_SHADOWED, &skill.path, message);
            }
            SkillRule::Invalid(reason) => {
                let message = format!("{path} is not listed: {reason}");
                report.warn(convoke_codex::diagnostics::SKILL_INVALID, &skill.path, message);
            }
            SkillRule::TooLarge(limit) => {
                let message = format!("{path} is not listed: it has more than {limit} bytes");
                report.warn(convoke_codex::diagnostics::SKILL_INVALID, &skill.path, message);
            }
            _ => {}
        }
    }
    report.skills_omitted = omitted;
    for (place, count) in unsearched {
        let message = format!(
            "{} does not read {}, which holds {}",
            report.edition.title(),
            place.display(),
            skills(*count)
        );
        let diagnostic = Diagnostic::new(diagnostics::SKILL_UNSEARCHED, message);
        report.diagnose(diagnostic.with_count(*count as u64).at_path(place.to_string_lossy()));
    }
}

/// Reports the descriptions that are cut.
fn report_cut(report: &mut AgentReport) {
    let is_cut = |it: &&Skill| !it.whole && !it.is_name_only;
    let cut: Vec<&Skill> = report.skills.iter().filter(is_cut).collect();
    let Some(first) = cut.first() else {
        return;
    };
    let path = cut.iter().find_map(|it| it.path.clone());
    let lost = |it: &&Skill| it.description_bytes - it.description_bytes_loaded;
    let bytes: u64 = cut.iter().map(lost).sum();
    let gone = cut.iter().filter(|it| it.description_bytes_loaded == 0).count();
    let names = named(cut.iter().map(|it| &*it.name));
    let what = match (cut.len(), gone) {
        (1, 1) => format!("the description of the skill {} does not arrive", first.name),
        (1, _) => format!(
            "of the description of the skill {} the first {} of {} bytes arrive",
            first.name, first.description_bytes_loaded, first.description_bytes
        ),
        (count, gone) if gone == count => {
            format!(
                "the descriptions of {count} of {} skills do not arrive: {names}",
                report.skills.len()
            )
        }
        (count, 0) => format!(
            "the descriptions of {count} of {} skills are cut: {names}",
            report.skills.len()
        ),
        (count, gone) => format!(
            "the descriptions of {count} of {} skills are cut, {gone} of them to nothing: {names}",
            report.skills.len()
        ),
    };
    let message = format!("{what}{}", budget(report));
    let mut diagnostic = Diagnostic::new(diagnostics::SKILL_DESCRIPTION_CUT, message)
        .with_count(cut.len() as u64)
        .with_bytes(bytes);
    if let Some(path) = path.as_deref().map(Path::to_string_lossy) {
        diagnostic = diagnostic.at_path(path);
    }
    report.diagnose(diagnostic);
}

fn budget(report: &AgentReport) -> String {
    let limited = report.skills_budget.and_then(|it| Some((it, it.limit?)));
    limited.map_or_else(String::new, |(budget, limit)| {
        format!("; the list takes {} of {limit} {}", budget.used, budget.unit.name())
    })
}

/// The first few of some names.
fn named<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 3;
    let names: Vec<_> = names.collect();
    let mut text = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(", …");
    }
    text
}

fn skills(count: usize) -> String {
    match count {
        1 => "one skill".to_owned(),
        count => format!("{count} skills"),
    }
}
