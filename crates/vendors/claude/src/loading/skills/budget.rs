//! The budget of the list, in columns: all names stay, and descriptions are kept or dropped whole.

use std::collections::HashMap;

use convoke_files::{FileKind, Files};
use serde_json::Value;

use super::super::settings::state_file;
use super::super::variables::Variables;
use super::SkillSettings;
use crate::loading::Release;
use convoke_explain::Session;
use convoke_explain::skills::Skill;

/// The part of the window that the list may take.
const FRACTION: f64 = 0.01;

/// The longest description, in UTF-16 units.
const MAX_DESCRIPTION: usize = 1536;

const MILLION: u64 = 1_000_000;
const SMALL_WINDOW: u64 = 200_000;

/// An entry of the list.
#[derive(Debug)]
pub(super) struct Entry {
    pub skill: Skill,
    /// The columns of its description.
    pub columns: u64,
    /// The name of its front matter, shown behind its own.
    pub other_name: Option<String>,
    /// Whether it keeps its description whatever the budget.
    pub is_protected: bool,
    /// Whether the first line of the text replaces its description.
    pub is_from_body: bool,
}

impl Entry {
    /// The columns of the name, with the mark of a list before it and a line break behind it.
    fn name_columns(&self) -> u64 {
        use unicode_width::UnicodeWidthStr;
        let other = self.other_name.as_ref().map_or(0, |name| " ()".len() + name.width());
        ("- ".len() + self.skill.name.width() + other + "\n".len()) as u64
    }

    /// The columns of the description, with the colon before it.
    fn description_columns(&self) -> u64 {
        if self.skill.is_name_only { 0 } else { ": ".len() as u64 + self.columns }
    }
}

/// The limits of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// The columns of the list.
    pub columns: u64,
    /// The UTF-16 units of a description.
    pub description: usize,
}

impl Limits {
    pub(super) fn new(
        session: &Session,
        edition: Release,
        settings: &SkillSettings,
        variables: &Variables,
    ) -> Self {
        let number = |name: &str| variables.get(name)?.trim().parse::<u64>().ok();
        let model = session.values("--model").pop();
        let model = model.or_else(|| variables.get("ANTHROPIC_MODEL"));
        let model = model.or(settings.model.as_deref());
        let model = Model::named(model.unwrap_or_default(), edition);
        let window = match number("CLAUDE_CODE_MAX_CONTEXT_TOKENS").filter(|_| model.is_unknown) {
            Some(given) => given,
            None if variables.is_on("CLAUDE_CODE_DISABLE_1M_CONTEXT") => {
                SMALL_WINDOW.min(model.window)
            }
            None => model.window,
        };
        let fraction = settings.fraction.filter(|it| *it > 0.0).unwrap_or(FRACTION);
        #[expect(clippy::cast_precision_loss, reason = "a window has far fewer digits")]
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and rounded down"
        )]
        let columns = (window as f64 * fraction * model.columns_per_token + 1e-6) as u64;
        Self {
            columns: number("SLASH_COMMAND_TOOL_CHAR_BUDGET")
                .filter(|it| *it > 0)
                .unwrap_or(columns),
            description: settings.max_description.filter(|it| *it > 0).unwrap_or(MAX_DESCRIPTION),
        }
    }
}

/// The properties of a model that determine the budget.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Model {
    window: u64,
    columns_per_token: f64,
    is_unknown: bool,
}

impl Model {
    /// Returns the figures of a model; those of the default for one that is not known.
    fn named(name: &str, edition: Release) -> Self {
        let (id, is_large) = match name.to_lowercase().strip_suffix("[1m]") {
            Some(id) => (id.to_owned(), true),
            None => (name.to_lowercase(), false),
        };
        let version = version(&id);
        let has_large_window = match (version, edition) {
            (None, _) => true,
            // The default of the older edition.
            (Some(version), Release::V197) => version >= (4, 8),
            (Some(version), _) => version >= (4, 7) || is_replaced(&id),
        };
        Self {
            window: if is_large || has_large_window { MILLION } else { SMALL_WINDOW },
            columns_per_token: if version.is_some_and(|it| it <= (4, 6)) && !is_replaced(&id) {
                4.0
            } else {
                3.0
            },
            is_unknown: version.is_none()
                && !matches!(&*id, "" | "default" | "opus" | "sonnet" | "haiku"),
        }
    }
}

/// Returns whether the program asks the default in place of a model that is no longer served.
fn is_replaced(id: &str) -> bool {
    id.contains("opus") && version(id).is_some_and(|it| ((4, 0)..=(4, 1)).contains(&it))
}

/// The version in a model's id: `claude-opus-4-5-20250101`, `claude-3-7-sonnet-latest`.
fn version(id: &str) -> Option<(u32, u32)> {
    let rest = &id[id.find("claude-")? + "claude-".len()..];
    let mut numbers = rest.split('-').skip_while(|part| part.parse::<u32>().is_err());
    let major = numbers.next()?.parse().ok()?;
    // A date follows where there is no minor version.
    let minor = numbers.next().and_then(|it| it.parse().ok()).filter(|it| *it < 100);
    Some((major, minor.unwrap_or(0)))
}

/// Returns how much each skill was used, by name.
pub(super) fn scores(files: &dyn Files, session: &Session) -> HashMap<String, f64> {
    let state = files.read(&state_file(session), FileKind::State).ok();
    let state = state.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let usage = state.as_ref().and_then(|it| it.get("skillUsage")?.as_object());
    let uses: Vec<(&String, f64, f64)> = usage
        .into_iter()
        .flatten()
        .filter_map(|(name, use_)| {
            let count = use_.get("usageCount")?.as_f64()?;
            Some((name, count, use_.get("lastUsedAt").and_then(Value::as_f64).unwrap_or(0.0)))
        })
        .collect();
    let latest = uses.iter().map(|(.., at)| *at).fold(0.0, f64::max);
    let now = session.now_ms.unwrap_or(latest);
    let score = |(name, count, at): (&String, f64, f64)| {
        let days = ((now - at) / 86_400_000.0).max(0.0);
        (name.clone(), count * 0.5_f64.powf(days / 7.0).max(0.1))
    };
    uses.into_iter().map(score).collect()
}

/// Drops the descriptions that do not fit. Returns the columns of the list.
pub(super) fn fit(entries: &mut [Entry], limit: u64, scores: &HashMap<String, f64>) -> u64 {
    let names: u64 = entries.iter().map(Entry::name_columns).sum();
    // The last line has no line break.
    let names = names.saturating_sub(1);
    let whole = names + entries.iter().map(Entry::description_columns).sum::<u64>();
    if whole <= limit {
        return whole;
    }
    let protected = entries.iter().filter(|it| it.is_protected);
    let mut used = names + protected.map(Entry::description_columns).sum::<u64>();
    let score = |entry: &Entry| scores.get(&entry.skill.name).copied().unwrap_or(0.0);
    let mut open: Vec<&mut Entry> =
        entries.iter_mut().filter(|it| !it.is_protected && !it.skill.is_name_only).collect();
    open.sort_by(|a, b| score(b).total_cmp(&score(a)));
    for entry in open {
        let columns = entry.description_columns();
        if used + columns <= limit {
            used += columns;
        } else {
            entry.skill.description_bytes_loaded = 0;
            entry.skill.whole = entry.skill.description_bytes == 0;
            entry.skill.text = entry.skill.text.take().map(|_| String::new());
            entry.is_from_body = false;
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_depends_on_the_model() {
        let cases = [
            ("", 30_000),
            ("opus", 30_000),
            ("claude-opus-5-5", 30_000),
            ("claude-sonnet-4-5-20250929", 8_000),
            ("claude-opus-4-20250514", 30_000),
            ("claude-opus-4-1", 30_000),
            ("claude-sonnet-4-20250514", 8_000),
            ("claude-opus-4-6", 8_000),
            ("claude-3-7-sonnet-latest", 8_000),
            ("claude-sonnet-4-5[1m]", 40_000),
            ("claude-opus-4-7", 30_000),
            ("claude-opus-4-8", 30_000),
            ("made-up", 30_000),
        ];
        for (model, expected) in cases {
            let mut session = Session::new("/r", "/h");
            session.arguments = vec!["--model".to_owned(), model.to_owned()];
            let limits = Limits::new(
                &session,
                Release::V325,
                &SkillSettings::default(),
                &Variables::default(),
            );
            assert_eq!(limits.columns, expected, "{model}");
        }
    }

    #[test]
    fn settings_and_variables_change_the_budget() {
        let limits = |variables: &[(&str, &str)], settings: &SkillSettings| {
            let mut session = Session::new("/r", "/h");
            let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            session.variables = variables.collect();
            Limits::new(&session, Release::V325, settings, &Variables::of(&session))
        };
        let none = SkillSettings::default();
        assert_eq!(limits(&[("SLASH_COMMAND_TOOL_CHAR_BUDGET", "300")], &none).columns, 300);
        assert_eq!(limits(&[("CLAUDE_CODE_DISABLE_1M_CONTEXT", "1")], &none).columns, 6_000);
        let unknown =
            [("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "100000"), ("ANTHROPIC_MODEL", "made-up")];
        assert_eq!(limits(&unknown, &none).columns, 3_000);
        let given = SkillSettings {
            fraction: Some(0.05),
            max_description: Some(100),
            ..SkillSettings::default()
        };
        assert_eq!(limits(&[], &given), Limits { columns: 150_000, description: 100 });
    }
}
