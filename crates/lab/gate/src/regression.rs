//! What got worse since a baseline.

use std::collections::BTreeMap;
use std::path::Path;

use convoke_core::{Code, Diagnostic};
use convoke_explain::Edition;

use crate::baseline::Baseline;
use crate::budget::Budget;
use crate::diagnostics;
use crate::measurement::{Measurement, PlaceReport};
use crate::record::{Record, loss, relative};

/// A measurement beside a baseline.
#[derive(Debug, Default)]
pub struct Comparison {
    /// What got worse: one entry for each cause, however many places have it.
    pub regressions: Vec<Regression>,
    /// Editions that are newer than those of the baseline.
    pub newer: Vec<Edition>,
    /// The tokens of every place, before and after.
    pub places: Vec<PlaceTokens>,
}

/// The tokens of a program in a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceTokens {
    pub place: String,
    pub agent: Edition,
    /// `None` if the baseline does not have the place.
    pub before: Option<u64>,
    pub after: u64,
}

/// Something that got worse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regression {
    pub kind: Kind,
    /// The file or skill; of a loss, the file that it concerns.
    pub subject: String,
    /// The line of the file, if the report names it.
    pub line: Option<u64>,
    /// The programs, in the order of reports.
    pub agents: Vec<Edition>,
    /// The places, sorted.
    pub places: Vec<String>,
    /// The tokens in the first place, before and after.
    pub tokens: Option<(u64, u64)>,
    /// Why it counts: the limit, the rule that keeps a file out, or the message of a diagnostic.
    pub why: String,
}

/// The ways in which something gets worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    FileLost,
    SkillLost,
    NewLoss,
    Growth,
    OverBudget,
}

impl Kind {
    /// Returns the code under which it is reported.
    pub const fn code(self) -> Code {
        match self {
            Self::FileLost => diagnostics::BASELINE_FILE_LOST,
            Self::SkillLost => diagnostics::BASELINE_SKILL_LOST,
            Self::NewLoss => diagnostics::BASELINE_NEW_LOSS,
            Self::Growth => diagnostics::BASELINE_GROWTH,
            Self::OverBudget => diagnostics::BASELINE_OVER_BUDGET,
        }
    }
}

/// Compares a measurement with a baseline.
pub fn compare(baseline: &Baseline, measurement: &Measurement) -> Comparison {
    let mut found = Regressions::default();
    let mut places = Vec::new();
    for (place, measured) in &measurement.places {
        for edition in &measurement.editions {
            let Some(record) = measured.records.get(edition.agent()) else { continue };
            let pair = Pair {
                place,
                edition: *edition,
                measured,
                before: baseline.record(place, edition.agent()),
                after: record,
                is_known: baseline.has(place),
                measurement,
            };
            pair.compare(baseline.budgets.of(edition.agent()), &mut found);
            let before = pair.before.as_ref().filter(|_| pair.is_known).map(Record::tokens);
            let (place, after) = (place.clone(), record.tokens());
            places.push(PlaceTokens { place, agent: *edition, before, after });
        }
    }
    let newer = baseline.editions.iter().filter(|edition| !edition.is_newest());
    let newer = newer.map(|edition| edition.rules().newest()).collect();
    Comparison { regressions: found.into_list(), newer, places }
}

/// What a program loads in a place, before and after.
struct Pair<'a> {
    place: &'a str,
    edition: Edition,
    measured: &'a PlaceReport,
    before: Option<Record>,
    after: &'a Record,
    /// Whether the baseline has the place itself; else `before` is that of the nearest above it.
    is_known: bool,
    measurement: &'a Measurement,
}

impl Pair<'_> {
    fn compare(&self, budget: Budget, found: &mut Regressions) {
        if let Some(before) = &self.before {
            self.new_losses(before, found);
            if self.is_known {
                self.lost_files(before, found);
                self.lost_skills(before, found);
                self.growth(before, budget, found);
            }
        }
        let tokens = self.after.tokens();
        if let Some(limit) = budget.max_tokens.filter(|limit| tokens > *limit) {
            let largest = self.after.files.iter().max_by_key(|(_, tokens)| **tokens);
            let subject = largest.map(|(file, _)| file.clone()).unwrap_or_default();
            let before = self.before.as_ref().map_or(0, Record::tokens);
            let mut regression = self.regression(Kind::OverBudget, subject);
            regression.tokens = Some((before, tokens));
            regression.why = format!("the limit is {limit} tokens");
            found.add(regression);
        }
    }

    fn lost_files(&self, before: &Record, found: &mut Regressions) {
        for (file, tokens) in &before.files {
            if self.after.files.contains_key(file) || self.has_moved(file, *tokens, before) {
                continue;
            }
            let mut regression = self.regression(Kind::FileLost, file.clone());
            regression.tokens = Some((*tokens, 0));
            regression.why = self.rule_for(file);
            found.add(regression);
        }
    }

    /// Returns whether a file has another name now: it is gone, and a file that was not there has as many tokens.
    fn has_moved(&self, file: &str, tokens: u64, before: &Record) -> bool {
        let is_new =
            |(name, count): (&String, &u64)| *count == tokens && !before.files.contains_key(name);
        !self.exists(file) && self.after.files.iter().any(is_new)
    }

    /// Returns whether a loss is one that was there under another name: it concerned a file that is gone.
    fn has_loss_moved(&self, name: &str, before: &Record) -> bool {
        let code = name.split_once(' ').map_or(name, |(code, _)| code);
        before.losses.keys().any(|known| {
            let of_code = known.split_once(' ').filter(|(known, _)| *known == code);
            of_code.is_some_and(|(_, file)| {
                !self.after.losses.contains_key(known) && !self.exists(file)
            })
        })
    }

    fn exists(&self, file: &str) -> bool {
        self.measurement.root.join(file).symlink_metadata().is_ok()
    }

    fn rule_for(&self, file: &str) -> String {
        let root = &self.measurement.root;
        let ignored = self.measured.report.agents.iter().find(|it| it.edition == self.edition);
        let ignored = ignored.into_iter().flat_map(|agent| &agent.ignored);
        let rule = ignored.into_iter().find(|it| relative(root, &it.path) == file);
        match rule {
            Some(ignored) => ignored.rule.to_string().replace(&format!("{}/", root.display()), ""),
            None if self.exists(file) => "nothing that is loaded names it any more".to_owned(),
            None => "it does not exist any more".to_owned(),
        }
    }

    fn new_losses(&self, before: &Record, found: &mut Regressions) {
        let root = &self.measurement.root;
        for (name, count) in &self.after.losses {
            if before.losses.get(name).is_some_and(|known| known >= count) {
                continue;
            }
            let (_, subject) = name.split_once(' ').unwrap_or((name, ""));
            // Of a new place counts what is in it: files above it are often for other places.
            let is_counted = self.is_known || Path::new(subject).starts_with(self.place);
            if !is_counted || self.has_loss_moved(name, before) {
                continue;
            }
            let agent = self.measured.report.agents.iter().find(|it| it.edition == self.edition);
            let mut diagnostics = agent.into_iter().flat_map(|it| &it.diagnostics);
            // Of several, the last one is more likely to be new.
            let diagnostic: Option<&Diagnostic> = diagnostics.rfind(|it| loss(it, root) == *name);
            let (code, subject) = name.split_once(' ').unwrap_or((name, ""));
            let mut regression = self.regression(Kind::NewLoss, subject.to_owned());
            regression.line = diagnostic.and_then(|it| it.line);
            regression.why = match diagnostic {
                Some(diagnostic) => {
                    let message = diagnostic.message.replace(&format!("{}/", root.display()), "");
                    format!("{code}: {message}")
                }
                None => format!("{subject} is left out: {}", self.rule_for(subject)),
            };
            found.add(regression);
        }
    }

    fn lost_skills(&self, before: &Record, found: &mut Regressions) {
        let lost = before.skills.iter().filter(|(name, _)| !self.after.skills.contains_key(*name));
        for (name, tokens) in lost {
            let agent = self.measured.report.agents.iter().find(|it| it.edition == self.edition);
            let mut omitted = agent.into_iter().flat_map(|it| &it.skills_omitted);
            let is_it = |path: &Path| {
                path.parent().and_then(|it| it.file_name()).is_some_and(|it| it == name.as_str())
            };
            let omitted = omitted
                .find(|it| it.name.as_deref() == Some(name) || is_it(&it.path))
                .map_or_else(|| "it does not exist any more".to_owned(), |it| it.rule.to_string());
            let mut regression = self.regression(Kind::SkillLost, name.clone());
            regression.tokens = Some((*tokens, 0));
            regression.why = omitted;
            found.add(regression);
        }
    }

    fn growth(&self, before: &Record, budget: Budget, found: &mut Regressions) {
        let (old, new) = (before.tokens(), self.after.tokens());
        let Some(limit) = budget.exceeded(old, new) else { return };
        let growth = |(file, tokens): (&String, &u64)| {
            let old = before.files.get(file).copied().unwrap_or_default();
            (tokens.saturating_sub(old), file.clone())
        };
        let skill = |(name, tokens): (&String, &u64)| {
            let old = before.skills.get(name).copied().unwrap_or_default();
            (tokens.saturating_sub(old), name.clone())
        };
        let files = self.after.files.iter().map(growth);
        let most = files.chain(self.after.skills.iter().map(skill)).max();
        let subject = most.map(|(_, file)| file).unwrap_or_default();
        let mut regression = self.regression(Kind::Growth, subject);
        regression.tokens = Some((old, new));
        regression.why = format!("the limit is {limit}");
        found.add(regression);
    }

    fn regression(&self, kind: Kind, subject: String) -> Regression {
        Regression {
            kind,
            subject,
            line: None,
            agents: vec![self.edition],
            places: vec![self.place.to_owned()],
            tokens: None,
            why: String::new(),
        }
    }
}

/// Regressions by what they have in common.
#[derive(Default)]
struct Regressions(BTreeMap<(Kind, String, String), Regression>);

impl Regressions {
    fn add(&mut self, regression: Regression) {
        // The rule of a lost file may differ between programs, and names one cause.
        let why =
            if regression.kind == Kind::NewLoss { regression.why.clone() } else { String::new() };
        let key = (regression.kind, regression.subject.clone(), why);
        let known = self.0.entry(key).or_insert_with(|| regression.clone());
        for agent in regression.agents {
            if !known.agents.contains(&agent) {
                known.agents.push(agent);
            }
        }
        for place in regression.places {
            if known.places.last() != Some(&place) {
                known.places.push(place);
            }
        }
    }

    fn into_list(self) -> Vec<Regression> {
        let mut list: Vec<Regression> = self.0.into_values().collect();
        for regression in &mut list {
            regression.agents.sort();
            regression.places.sort();
            regression.places.dedup();
        }
        list
    }
}

impl Regression {
    /// Describes what happened, as one sentence.
    pub fn message(&self) -> String {
        let mut titles: Vec<&str> = self.agents.iter().map(|it| it.title()).collect();
        titles.dedup();
        let (agents, subject, why) = (titles.join(", "), &self.subject, &self.why);
        let whereabouts = self.whereabouts();
        let (before, after) = self.tokens.unwrap_or_default();
        match self.kind {
            Kind::FileLost => {
                format!("{subject} is no longer loaded by {agents} in {whereabouts}: {why}")
            }
            Kind::SkillLost => {
                format!(
                    "the skill {subject} is no longer listed by {agents} in {whereabouts}: {why}"
                )
            }
            Kind::NewLoss => format!("{agents} in {whereabouts}: {why}"),
            Kind::Growth => format!(
                "{agents} in {whereabouts}: {after} tokens, {} more than in the baseline; {why}; {subject} has grown the most",
                after.saturating_sub(before)
            ),
            Kind::OverBudget => format!(
                "{agents} in {whereabouts}: {after} tokens; {why}; {subject} is the largest file"
            ),
        }
    }

    /// Names the places: the first, and the number of the others.
    fn whereabouts(&self) -> String {
        let first = self.places.first().map_or(".", String::as_str);
        match self.places.len().saturating_sub(1) {
            0 => first.to_owned(),
            1 => format!("{first} and 1 more directory"),
            more => format!("{first} and {more} more directories"),
        }
    }
}
