//! One verdict of many answers. It fails closed: what nobody has answered is not approved.

use serde::Serialize;

use crate::answer::{Answer, Opinion, Severity};
use crate::finding::CheckedFinding;

/// The verdict on a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Approve,
    Reject,
    /// Not everything was answered.
    None,
}

impl Verdict {
    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::None => "none",
        }
    }
}

/// Returns the verdict of one reviewer: of its answers to all parts, of which a missing one is `None`.
pub fn of_reviewer(answers: &[Option<Answer>]) -> Verdict {
    let mut opinions = answers.iter().flatten().map(|answer| answer.verdict);
    if opinions.any(|opinion| opinion == Opinion::Reject) {
        Verdict::Reject
    } else if answers.is_empty() || answers.iter().any(Option::is_none) {
        Verdict::None
    } else {
        Verdict::Approve
    }
}

/// Returns the verdict of all reviewers. A rejection counts even if another reviewer has not answered; an approval needs an answer
/// of every reviewer to everything, and no finding that counts at or above the limit.
pub fn verdict(
    reviewers: &[Verdict],
    findings: &[CheckedFinding],
    fail_on: Option<Severity>,
    is_complete: bool,
) -> Verdict {
    let is_serious = |it: &&CheckedFinding| {
        it.counts() && fail_on.is_some_and(|limit| it.finding.severity >= limit)
    };
    if reviewers.contains(&Verdict::Reject) || findings.iter().any(|it| is_serious(&it)) {
        Verdict::Reject
    } else if !is_complete || reviewers.is_empty() || reviewers.contains(&Verdict::None) {
        Verdict::None
    } else {
        Verdict::Approve
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Finding, Problem};

    #[test]
    fn nothing_but_the_approval_of_everyone_to_everything_is_an_approval() {
        use Verdict::{Approve, None as Missing, Reject};
        let finding = |severity, problem| CheckedFinding {
            finding: Finding {
                file: "a".to_owned(),
                line: 1,
                severity,
                claim: "c".to_owned(),
                evidence: String::new(),
                suggestion: String::new(),
            },
            problem,
        };
        let high = finding(Severity::High, None);
        let outside = finding(Severity::Critical, Some(Problem::OutsideDiff));
        let limit = Some(Severity::High);
        for (reviewers, findings, fail_on, is_complete, expected) in [
            (&[Approve][..], &[][..], None, true, Approve),
            (&[Approve, Approve], &[], limit, true, Approve),
            (&[], &[], None, true, Missing),
            (&[Approve, Missing], &[], None, true, Missing),
            (&[Approve], &[], None, false, Missing),
            (&[Missing, Reject], &[], None, false, Reject),
            (&[Approve], std::slice::from_ref(&high), limit, true, Reject),
            (&[Approve], std::slice::from_ref(&high), Some(Severity::Critical), true, Approve),
            (&[Approve], std::slice::from_ref(&outside), limit, true, Approve),
        ] {
            assert_eq!(verdict(reviewers, findings, fail_on, is_complete), expected);
        }
        let answer = |verdict| Some(Answer { verdict, findings: Vec::new() });
        let of = |answers: &[Option<Answer>]| of_reviewer(answers);
        assert_eq!(of(&[]), Missing);
        assert_eq!(of(&[answer(Opinion::Approve), None]), Missing);
        assert_eq!(of(&[answer(Opinion::Approve), answer(Opinion::Reject)]), Reject);
        assert_eq!(of(&[answer(Opinion::Approve)]), Approve);
    }
}
