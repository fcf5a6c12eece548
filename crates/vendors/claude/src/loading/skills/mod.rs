//! The list of skills that Claude Code sends: the administrator's, the user's, the project's, commands, those of
//! plugins and its own, within a budget of columns.

mod budget;
mod builtin;
mod find;
mod text;

use std::path::PathBuf;

use convoke_files::Files;

use super::permissions::split_rules;
use super::settings::{Layer, Settings};
use crate::loading::Release;
use convoke_explain::AgentReport;
use convoke_explain::Session;
use convoke_explain::config;
use convoke_explain::diagnostics;
use convoke_explain::skills::{
    BudgetUnit, BuiltinSkill, OmittedSkill, Skill, SkillRule, SkillSource, SkillsBudget,
    loaded_bytes,
};

use budget::{Entry, Limits};
use find::{Candidate, Finder};
use text::Description;

/// The settings for skills.
#[derive(Debug, Default)]
pub(super) struct SkillSettings {
    /// `skillOverrides`, the last of each name.
    pub overrides: Vec<(String, String)>,
    /// `disableBundledSkills`.
    pub without_bundled: bool,
    /// `skillListingBudgetFraction`.
    pub fraction: Option<f64>,
    /// `skillListingMaxDescChars`.
    pub max_description: Option<usize>,
    /// `model`.
    pub model: Option<String>,
    /// Whether a permission rule denies the tool that runs skills.
    pub is_denied: bool,
}

impl SkillSettings {
    pub(super) fn take(&mut self, layer: &Layer) {
        let value = &layer.value;
        let text = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) => Some(text.clone()),
            serde_json::Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let pairs = |key: &str| {
            let map = value.get(key).and_then(serde_json::Value::as_object);
            let pairs = map.into_iter().flatten();
            pairs.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect::<Vec<_>>()
        };
        self.overrides.extend(pairs("skillOverrides"));
        let denied = value.pointer("/permissions/deny").map(config::strings).unwrap_or_default();
        self.is_denied |= denied.iter().any(|rule| is_the_tool(rule));
        if let Some(off) = value.get("disableBundledSkills").and_then(serde_json::Value::as_bool) {
            self.without_bundled = off;
        }
        let fraction = value.get("skillListingBudgetFraction").and_then(serde_json::Value::as_f64);
        self.fraction = fraction.or(self.fraction);
        let max = value.get("skillListingMaxDescChars").and_then(serde_json::Value::as_u64);
        let max = max.and_then(|it| usize::try_from(it).ok());
        self.max_description = max.or(self.max_description);
        let model = value.get("model").and_then(serde_json::Value::as_str);
        self.model = model.map(str::to_owned).or(self.model.take());
    }

    /// Returns what a setting does to a skill.
    fn override_of(&self, name: &str) -> Option<&str> {
        let mut last_first = self.overrides.iter().rev();
        last_first.find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Finds the skills that Claude Code lists.
pub(super) fn explain(
    files: &dyn Files,
    session: &Session,
    edition: Release,
    settings: &Settings,
    repository: Option<&std::path::Path>,
    report: &mut AgentReport,
) {
    let mut finder = Finder::new(files, session, edition, settings);
    finder.search(repository);
    let Finder { found, scoped, mut omitted, .. } = finder;
    let limits = Limits::new(session, edition, &settings.skills, &settings.variables);

    let mut entries: Vec<Entry> = Vec::new();
    for candidate in found {
        let name = candidate.name.clone();
        match settings.skills.override_of(&name) {
            Some(value @ ("off" | "user-invocable-only")) => {
                let rule = SkillRule::SwitchedOff(format!("skillOverrides: {value}"));
                omitted.push(OmittedSkill { name: Some(name), path: candidate.path, rule });
            }
            given => entries.push(entry(candidate, given == Some("name-only"), edition, &limits)),
        }
    }
    let used: Vec<String> = entries.iter().map(|entry| entry.skill.name.clone()).collect();
    let without_bundled = settings.skills.without_bundled
        || settings.variables.is_on("CLAUDE_CODE_DISABLE_BUNDLED_SKILLS");
    let mut scoped: Vec<Entry> =
        scoped.into_iter().map(|it| entry(it, false, edition, &limits)).collect();
    for (skill, kind) in builtin::skills(edition) {
        if kind == builtin::BuiltinKind::Command {
            entries.append(&mut scoped);
        }
        let stays = !without_bundled || skill.name == builtin::ALWAYS;
        let is_off =
            matches!(settings.skills.override_of(skill.name), Some("off" | "user-invocable-only"));
        if stays && !is_off && !used.iter().any(|name| name == skill.name) {
            let mut entry = builtin_entry(skill, kind, &limits);
            if settings.skills.override_of(skill.name) == Some("name-only") {
                entry.skill.is_name_only = true;
                entry.skill.whole = false;
                entry.skill.description_bytes_loaded = 0;
            }
            entries.push(entry);
        }
    }
    add_other_names(&mut entries);

    if let Some(switch) = switched_off(session, settings) {
        for entry in entries {
            if let Some(path) = entry.skill.path {
                let rule = SkillRule::SwitchedOff(switch.to_owned());
                omitted.push(OmittedSkill { name: Some(entry.skill.name), path, rule });
            }
        }
        let message = format!("no skill is listed: {switch}");
        report.warn(diagnostics::SKILLS_SWITCHED_OFF, &session.cwd, message);
        report.skills_omitted = omitted;
        return;
    }
    let scores = budget::scores(files, session);
    let used = budget::fit(&mut entries, limits.columns, &scores);
    report_undescribed(&entries, report);
    let limit = Some(limits.columns);
    report.skills_budget = Some(SkillsBudget { limit, unit: BudgetUnit::Columns, used });
    report.skills = entries.into_iter().map(|entry| entry.skill).collect();
    report.skills_omitted = omitted;
}

/// Returns what keeps the list of skills out of the request. Without the tool that runs skills there is no list.
fn switched_off(session: &Session, settings: &Settings) -> Option<&'static str> {
    let arguments = ["--disable-slash-commands", "--bare", "--safe-mode"];
    if let Some(given) = arguments.into_iter().find(|it| session.has_argument(it)) {
        return Some(given);
    }
    let lists = |option: &'static str, is_it: fn(&str) -> bool| {
        session.all_values(option).into_iter().flat_map(split_rules).any(is_it)
    };
    let has_tools = lists("--tools", |tool| tool == TOOL || tool == "default");
    match () {
        () if settings.variables.is_on("CLAUDE_CODE_SIMPLE") => Some("CLAUDE_CODE_SIMPLE"),
        () if settings.skills.is_denied => Some("a rule of permissions.deny"),
        () if lists("--disallowedTools", is_the_tool) => Some("--disallowedTools"),
        () if lists("--disallowed-tools", is_the_tool) => Some("--disallowed-tools"),
        () if !session.all_values("--tools").is_empty() && !has_tools => Some("--tools"),
        () => None,
    }
}

/// The tool that runs skills.
const TOOL: &str = "Skill";

/// Returns whether a permission rule is about the tool that runs skills, whatever the skill.
fn is_the_tool(rule: &str) -> bool {
    matches!(rule.trim(), TOOL | "Skill(*)" | "*")
}

fn entry(candidate: Candidate, is_name_only: bool, edition: Release, limits: &Limits) -> Entry {
    let Candidate { name, path, real_path, source, about, note_columns } = candidate;
    let Description { stated, shown, is_from_body } = about.description;
    let sent = text::sent(&shown, edition, limits.description);
    let description_bytes = if is_from_body && stated.is_empty() { 0 } else { stated.len() as u64 };
    let kept = if is_name_only { "" } else { &sent.kept };
    let loaded = loaded_bytes(&stated, kept);
    let text = if is_name_only { String::new() } else { sent.text };
    Entry {
        columns: sent.columns + note_columns,
        other_name: about.name,
        is_protected: false,
        is_from_body,
        skill: Skill {
            name,
            path: Some(path),
            description_bytes,
            description_bytes_loaded: loaded,
            whole: loaded == description_bytes && !is_name_only,
            source,
            real_path: Some(real_path),
            is_name_only,
            text: Some(text),
        },
    }
}

fn builtin_entry(skill: BuiltinSkill, kind: builtin::BuiltinKind, limits: &Limits) -> Entry {
    let all = skill.characters();
    let is_cut = all > limits.description as u64;
    let kept = if is_cut { limits.description as u64 - 1 } else { all };
    let loaded = skill.bytes_of(kept);
    Entry {
        columns: skill.columns_of(kept) + u64::from(is_cut),
        other_name: None,
        is_protected: kind == builtin::BuiltinKind::Skill,
        is_from_body: false,
        skill: Skill::builtin(&skill, loaded),
    }
}

/// Keeps the name of the front matter where it is shown behind the directory's: a plain word that is not a name
/// of another skill, nor shown already.
fn add_other_names(entries: &mut [Entry]) {
    let mut taken: std::collections::BTreeSet<String> =
        entries.iter().map(|entry| entry.skill.name.clone()).collect();
    for entry in entries {
        let prefix = entry.skill.name.rsplit_once(':').map(|(plugin, _)| format!("{plugin}:"));
        let is_plain = |name: &String| !name.contains(|it: char| it.is_whitespace() || it == '/');
        let other = entry.other_name.take().filter(|name| !name.is_empty()).filter(is_plain);
        let other = other.map(|name| match (&entry.skill.source, &prefix) {
            (SkillSource::Plugin, Some(prefix)) => format!("{prefix}{name}"),
            _ => name,
        });
        entry.other_name = other.filter(|name| taken.insert(name.clone()));
    }
}

fn report_undescribed(entries: &[Entry], report: &mut AgentReport) {
    let found = entries.iter().filter(|entry| entry.is_from_body);
    let found: Vec<(String, PathBuf)> = found
        .filter_map(|entry| Some((entry.skill.name.clone(), entry.skill.path.clone()?)))
        .filter(|(_, path)| path.ends_with(convoke_explain::skills::FILE_NAME))
        .collect();
    for (name, path) in found {
        let message =
            format!("the skill {name} is described by the first line of {}", path.display());
        report.warn(diagnostics::SKILL_UNDESCRIBED, &path, message);
    }
}
