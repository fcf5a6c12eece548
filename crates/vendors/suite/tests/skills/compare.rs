//! Compares a report with the list that was sent, and names the first difference.

use std::path::PathBuf;

use convoke_explain::{AgentReport, Skill, SkillRule, SkillSource};

use crate::layout::Laid;
use crate::scenario::{Expected, ExpectedSkill, Scenario};

/// Returns the first difference.
pub fn compare(
    laid: &Laid,
    scenario: &Scenario,
    expected: &Expected,
    report: &AgentReport,
) -> Result<(), String> {
    let mut expected_skills: Vec<&ExpectedSkill> = expected.skills.iter().collect();
    let mut found_skills: Vec<&Skill> = report.skills.iter().collect();
    if report.agent == "gemini" {
        // It reads the skills of one place at the same time, so that neighbours may change places.
        sort_runs(&mut expected_skills, |it| {
            (it.path.as_deref().map(|path| laid.path(path)), it.name.clone())
        });
        sort_runs(&mut found_skills, |it| (it.path.clone(), it.name.clone()));
    }
    for (index, skill) in expected_skills.iter().enumerate() {
        let name = &skill.name;
        let Some(found) = found_skills.get(index) else {
            return Err(format!("skill {}: {name} is missing", index + 1));
        };
        let path = skill.path.as_deref().map(|path| laid.path(path));
        if found.name != *name {
            return Err(format!("skill {}: expected {name}, found {}", index + 1, found.name));
        }
        let is_same_file = path.is_none() || found.path == path || found.real_path == path;
        if !is_same_file || (path.is_none() != found.path.is_none()) {
            return Err(format!("{name}: expected {path:?}, found {:?}", found.path));
        }
        if skill.is_builtin != (found.source == SkillSource::Builtin) {
            return Err(format!("{name}: its source is {:?}", found.source));
        }
        let figures = (skill.bytes, skill.bytes_seen);
        let found_figures = (found.description_bytes, found.description_bytes_loaded);
        if !skill.is_changed && figures != found_figures {
            return Err(format!("{name}: {figures:?} bytes, found {found_figures:?}"));
        }
        if skill.is_whole != found.whole {
            return Err(format!("{name}: whole is {}, found {}", skill.is_whole, found.whole));
        }
    }
    if let Some(further) = report.skills.get(expected.skills.len()) {
        return Err(format!("{} is listed and should not be", further.name));
    }
    let limit = report.skills_budget.and_then(|budget| budget.limit);
    if !expected.skills.is_empty() && limit != expected.limit {
        return Err(format!("the limit is {:?}, found {limit:?}", expected.limit));
    }
    same_omitted(laid, scenario, expected, report)
}

/// Sorts every run of skills from the same place by name.
fn sort_runs<T>(skills: &mut [T], key: impl Fn(&T) -> (Option<PathBuf>, String)) {
    let place = |it: &T| key(it).0.and_then(|path| Some(path.ancestors().nth(2)?.to_owned()));
    for run in skills.chunk_by_mut(|a, b| place(a).is_some() && place(a) == place(b)) {
        run.sort_by_key(|it| key(it).1);
    }
}

/// Whatever the program left out must have a rule of the same kind, as far as it stands where it is looked
/// for.
fn same_omitted(
    laid: &Laid,
    scenario: &Scenario,
    expected: &Expected,
    report: &AgentReport,
) -> Result<(), String> {
    let cwd = laid.path(scenario.cwd.trim_start_matches("/lab/"));
    for (path, reason) in &expected.omitted {
        let full = laid.path(path);
        let found = report.skills_omitted.iter().find(|it| it.path == full);
        let Some(found) = found else {
            let base = full.ancestors().nth(4);
            let is_near = base.is_some_and(|it| cwd.starts_with(it));
            // A file that is listed under another path, or is the same as one that is.
            let is_known = report.skills.iter().any(|it| it.real_path.as_ref() == Some(&full));
            let is_link = full.symlink_metadata().is_ok_and(|it| it.is_symlink());
            if is_near && !is_known && !is_link && reason == "place not searched" {
                return Err(format!("{path} is left out ({reason}), and no rule is given"));
            }
            if reason.contains("configuration") || reason.contains("budget") {
                return Err(format!("{path} is left out ({reason}), and no rule is given"));
            }
            continue;
        };
        let is_same = match &found.rule {
            SkillRule::Unsearched => ["place", "same name", "hidden", "plugin"]
                .iter()
                .any(|kind| reason.starts_with(kind)),
            // Without a list, the recorder saw no difference between what is searched and what is not.
            SkillRule::SwitchedOff(_) => report.skills.is_empty() || !reason.starts_with("place"),
            SkillRule::OverBudget => reason == "over budget",
            SkillRule::Shadowed(_) => reason.starts_with("same name"),
            SkillRule::Invalid(_) => reason.starts_with("invalid") || reason.starts_with("no "),
            _ => true,
        };
        if !is_same {
            return Err(format!("{path} is left out: {reason}; found: {}", found.rule));
        }
    }
    Ok(())
}
