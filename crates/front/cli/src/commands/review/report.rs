//! A review as text, Markdown, JSON and findings of a CI system.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use convoke_open::prices::Cost;
use convoke_protocol::id::{SessionId, TurnId};
use convoke_review::answer::Severity;
use convoke_review::panel::Ballots;
use convoke_review::{CheckedFinding, LeftOut, Verdict};
use serde_json::{Value, json};

use super::author::Author;
use super::reviewers::Spent;
use crate::commands::explain::format::{Format, Found, cell, code};
use crate::figures::{count, dollars, number, seconds};
use crate::findings::{Finding, Level, Place, Rule};
use crate::outcome::Outcome;
use crate::program;
use crate::terminal::{Paint, printable, stdout};

/// A finding, with the reviewer and the turn that it is from.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) checked: CheckedFinding,
    pub(super) reviewer: String,
    pub(super) turn: Option<TurnId>,
    /// What the other reviewers think of it.
    pub(super) votes: Vec<(String, Ballots, String)>,
}

/// What a reviewer says of the whole change.
#[derive(Debug, Clone)]
pub(super) struct Reviewed {
    pub(super) name: String,
    pub(super) verdict: Verdict,
    /// Why there is no verdict.
    pub(super) why: Option<String>,
    pub(super) spent: Spent,
}

/// A finished review.
#[derive(Debug)]
pub(super) struct Review {
    pub(super) verdict: Verdict,
    pub(super) claims: Vec<Claim>,
    pub(super) reviewers: Vec<Reviewed>,
    pub(super) left_out: Vec<LeftOut>,
    /// Why not everything was reviewed.
    pub(super) incomplete: Option<String>,
    pub(super) base: String,
    pub(super) author: Option<Author>,
    pub(super) session: Option<SessionId>,
    pub(super) parts: usize,
    pub(super) files: usize,
    pub(super) elapsed: Duration,
}

impl Review {
    /// Returns the outcome of the command.
    pub(super) const fn outcome(&self) -> Outcome {
        match self.verdict {
            Verdict::Approve => Outcome::Done,
            Verdict::Reject => Outcome::Denied,
            Verdict::None => Outcome::Failed,
        }
    }

    /// Writes the review to standard output.
    pub(super) fn write(&self, format: Option<Format>) -> anyhow::Result<()> {
        let mut out = stdout();
        let text = match format {
            Some(format) => self.rendered(format)?,
            None => self.text(Paint::for_stream(&out)),
        };
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// Returns the review in a format.
    pub(super) fn rendered(&self, format: Format) -> anyhow::Result<String> {
        Ok(match format {
            Format::Json => serde_json::to_string_pretty(&self.json())? + "\n",
            Format::Sarif => serde_json::to_string_pretty(&self.found().sarif())? + "\n",
            Format::Github => self.found().annotations(),
            Format::Markdown => self.markdown(),
        })
    }

    fn cost(&self) -> Cost {
        let mut sum = Cost::default();
        for reviewer in &self.reviewers {
            sum.add_sum(reviewer.spent.cost);
        }
        sum
    }

    /// Returns the command that shows the request of a turn.
    fn shown_by(&self, turn: Option<TurnId>) -> Option<String> {
        let (session, turn) = (self.session?, turn?);
        let (program, store) = (program::name(), program::store_option());
        Some(format!("{program} sessions show {} --turn {turn} --prompt{store}", session.short()))
    }

    /// Returns the findings for output, those that count first, the most serious first.
    fn sorted(&self) -> Vec<&Claim> {
        let mut claims: Vec<&Claim> = self.claims.iter().collect();
        claims.sort_by_key(|it| {
            (!it.checked.counts(), std::cmp::Reverse(it.checked.finding.severity))
        });
        claims
    }

    pub(super) fn json(&self) -> Value {
        let findings = self.sorted().into_iter().map(|claim| {
            let finding = &claim.checked.finding;
            let votes = |kind: Ballots| -> Vec<&str> {
                let of_kind = claim.votes.iter().filter(|(_, vote, _)| *vote == kind);
                of_kind.map(|(name, ..)| &**name).collect()
            };
            json!({
                "file": finding.file, "line": finding.line, "severity": finding.severity,
                "claim": finding.claim, "evidence": finding.evidence, "suggestion": finding.suggestion,
                "counts": claim.checked.counts(),
                "problem": claim.checked.problem,
                "reviewer": claim.reviewer,
                "confirmedBy": votes(Ballots::Confirm), "refutedBy": votes(Ballots::Refute),
                "turn": claim.turn,
                "request": self.shown_by(claim.turn),
            })
        });
        let reviewers = self.reviewers.iter().map(|it| {
            json!({
                "name": it.name, "verdict": it.verdict, "why": it.why, "turns": it.spent.turns,
                "tokens": it.spent.tokens, "model": it.spent.model, "cost": it.spent.cost.to_json(),
            })
        });
        let author = self.author.as_ref();
        json!({
            "version": 1,
            "verdict": self.verdict,
            "findings": findings.collect::<Vec<_>>(),
            "reviewers": reviewers.collect::<Vec<_>>(),
            "leftOut": self.left_out,
            "incomplete": self.incomplete,
            "cost": self.cost().to_json(),
            "base": self.base,
            "author": author.map(|it| json!({ "program": it.program, "because": it.because })),
            "session": self.session,
            "files": self.files,
            "parts": self.parts,
            "elapsedMs": u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX),
        })
    }

    pub(super) fn text(&self, paint: Paint) -> String {
        let mut out = String::new();
        for claim in self.sorted() {
            let finding = &claim.checked.finding;
            let place = printable(&format!("{}:{}", finding.file, finding.line)).into_owned();
            let severity = match finding.severity {
                Severity::High | Severity::Critical => paint.bad(finding.severity.name()),
                _ => finding.severity.name().to_owned(),
            };
            let _ = writeln!(out, "{severity}  {place}  {}", printable(&finding.claim));
            for (title, text) in [("", &finding.evidence), ("→ ", &finding.suggestion)] {
                for line in text.lines().filter(|line| !line.trim().is_empty()) {
                    let _ = writeln!(out, "  {title}{}", printable(line));
                }
            }
            if let Some(problem) = claim.checked.problem {
                let _ = writeln!(
                    out,
                    "  {}",
                    paint.faint(&format!("does not count: {}", problem.text()))
                );
            }
            for (name, vote, reason) in &claim.votes {
                let vote = match vote {
                    Ballots::Confirm => "confirms",
                    Ballots::Refute => "refutes",
                };
                let _ = writeln!(out, "  {name} {vote} it: {}", printable(reason));
            }
            let by = self.shown_by(claim.turn).map(|it| format!(", {it}")).unwrap_or_default();
            let _ = writeln!(out, "  {}", paint.faint(&format!("{}{by}", claim.reviewer)));
        }
        for LeftOut { path, what, rule, .. } in &self.left_out {
            let _ = writeln!(
                out,
                "not shown to the reviewers: the {what} of {} ({rule})",
                printable(path)
            );
        }
        for Reviewed { name, verdict, why, .. } in &self.reviewers {
            let why = why.as_ref().map(|why| format!(": {}", printable(why))).unwrap_or_default();
            let _ = writeln!(out, "{name}: {}{why}", verdict.name());
        }
        if let Some(why) = &self.incomplete {
            let _ = writeln!(out, "{}", printable(why));
        }
        let _ = writeln!(out, "{}", self.summary());
        out
    }

    fn summary(&self) -> String {
        let verdict = match self.verdict {
            Verdict::Approve => "approved",
            Verdict::Reject => "rejected",
            Verdict::None => "no verdict",
        };
        let counted = self.claims.iter().filter(|it| it.checked.counts()).count() as u64;
        let mut parts = vec![
            format!("{verdict}: {}", count(counted, "finding")),
            count(self.files as u64, "file"),
        ];
        let tokens: u64 = self.reviewers.iter().map(|it| it.spent.tokens).sum();
        parts.push(format!("{} tokens", number(tokens)));
        parts.push(match self.cost() {
            Cost { known: 0, .. } => "cost unknown".to_owned(),
            Cost { amount, unknown: 0, .. } => format!("{} at API prices", dollars(amount)),
            Cost { amount, .. } => format!("{} at API prices and more", dollars(amount)),
        });
        parts.push(seconds(self.elapsed));
        parts.join(", ")
    }

    pub(super) fn markdown(&self) -> String {
        let mut out = format!("### Review: {}\n", cell(&self.summary()));
        if !self.claims.is_empty() {
            out.push_str("\n| severity | place | finding | reviewer |\n|---|---|---|---|\n");
        }
        for claim in self.sorted() {
            let finding = &claim.checked.finding;
            let place = code(&format!("{}:{}", finding.file, finding.line));
            let problem =
                claim.checked.problem.map(|it| format!(" *(does not count: {})*", it.text()));
            let agreement: Vec<String> = claim
                .votes
                .iter()
                .map(|(name, vote, _)| match vote {
                    Ballots::Confirm => format!("+{name}"),
                    Ballots::Refute => format!("−{name}"),
                })
                .collect();
            let _ = writeln!(
                out,
                "| {} | {place} | {} {}{} | {} {} |",
                finding.severity,
                cell(&finding.claim),
                cell(&finding.suggestion),
                problem.unwrap_or_default(),
                cell(&claim.reviewer),
                cell(&agreement.join(" ")),
            );
        }
        out.push('\n');
        for Reviewed { name, verdict, why, .. } in &self.reviewers {
            let why = why.as_ref().map(|why| format!(": {}", cell(why))).unwrap_or_default();
            let _ = writeln!(out, "- {}: {}{why}", cell(name), verdict.name());
        }
        for LeftOut { path, what, rule, .. } in &self.left_out {
            let _ = writeln!(out, "- not shown: the {what} of {} ({})", code(path), cell(rule));
        }
        if let Some(why) = &self.incomplete {
            let _ = writeln!(out, "- {}", cell(why));
        }
        out
    }

    /// Returns the findings that count, and that there is no verdict if there is none.
    fn found(&self) -> Found {
        let mut found = Found::default();
        for severity in [Severity::Critical, Severity::High, Severity::Medium, Severity::Low] {
            found.rules.push(Rule {
                id: format!("review.{severity}"),
                summary: format!("A reviewer has a finding of severity {severity}."),
                help: String::new(),
            });
        }
        for claim in self.sorted().into_iter().filter(|it| it.checked.counts()) {
            let finding = &claim.checked.finding;
            let shown = [&finding.claim, &finding.suggestion];
            let text: Vec<&str> =
                shown.into_iter().map(|it| it.trim()).filter(|it| !it.is_empty()).collect();
            found.findings.push(Finding {
                rule: format!("review.{}", finding.severity),
                level: match finding.severity {
                    Severity::Critical | Severity::High => Level::Error,
                    Severity::Medium => Level::Warning,
                    Severity::Low => Level::Note,
                },
                message: format!("{}: {}", claim.reviewer, text.join("\n")),
                place: Some(Place { file: finding.file.clone(), line: Some(finding.line) }),
                key: finding.claim.clone(),
            });
        }
        if self.verdict == Verdict::None {
            found.rules.push(Rule {
                id: "review.no-verdict".to_owned(),
                summary: "The reviewers have not answered everything.".to_owned(),
                help: "Run the review again, or name other reviewers.".to_owned(),
            });
            let whys = self.reviewers.iter().filter_map(|it| Some((&it.name, it.why.as_ref()?)));
            let mut whys: Vec<String> = whys.map(|(name, why)| format!("{name}: {why}")).collect();
            whys.extend(self.incomplete.clone());
            found.findings.push(Finding {
                rule: "review.no-verdict".to_owned(),
                level: Level::Error,
                message: format!("there is no verdict: {}", whys.join("; ")),
                place: None,
                key: String::new(),
            });
        }
        found
    }
}
