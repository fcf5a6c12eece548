//! Decides the questions that an agent asks before it acts: by rules, by earlier answers, or by a person.
//!
//! Only an [`Answerer`] answers a question, and only the caller of a turn has one. No text of a conversation
//! can answer a question.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use convoke_protocol::permission::{AnsweredBy, PermissionAnswer, PermissionQuestion};
use convoke_team::{PermissionRules, RuleAnswer};
use tokio::sync::{mpsc, watch};

use crate::sandbox::Reach;

/// Answers that people gave for the whole session. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct SessionAnswers(Arc<Mutex<BTreeMap<QuestionKey, PermissionAnswer>>>);

/// Decides questions without a person: by rules, and by earlier answers in the session. Clones share the
/// answers.
#[derive(Debug, Clone, Default)]
pub struct Approvals {
    rules: PermissionRules,
    /// Whether no person can be asked.
    is_unattended: Arc<watch::Sender<bool>>,
    /// The member whose agent asks.
    member: String,
    remembered: SessionAnswers,
    /// The paths that a yes can allow.
    reach: Option<Arc<Reach>>,
}

impl Approvals {
    /// Creates approvals with the rules of a directory.
    pub fn new(rules: PermissionRules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Shares the answers for a session with other members and later turns.
    #[must_use]
    pub fn remembered_in(self, answers: &SessionAnswers, member: &str) -> Self {
        Self { member: member.to_owned(), remembered: answers.clone(), ..self }
    }

    /// Refuses actions that the sandbox would stop, so that no person is asked about them.
    #[must_use]
    pub(crate) fn within(self, reach: Reach) -> Self {
        Self { reach: Some(Arc::new(reach)), ..self }
    }

    /// Sets whether a person can be asked. If not, every question that no rule allows is refused.
    pub fn set_attended(&self, is_attended: bool) {
        self.is_unattended.send_replace(!is_attended);
    }

    /// Waits until no person can be asked.
    pub async fn unattended(&self) {
        let mut is_unattended = self.is_unattended.subscribe();
        // The sender is a field of `self`, so it is not dropped.
        let _ = is_unattended.wait_for(|is_unattended| *is_unattended).await;
    }

    /// Returns the answer to a question that needs no person, with its origin.
    pub fn decide(&self, question: &PermissionQuestion) -> Option<(PermissionAnswer, AnsweredBy)> {
        if self.reach.as_ref().is_some_and(|reach| reach.stops(question)) {
            return Some((PermissionAnswer::Never, AnsweredBy::Sandbox));
        }
        // A rule applies to one directory; the same command can do something else in another.
        let has_rule = question.is_command && question.directory.is_none();
        let rule = self.rules.answer(&question.summary);
        let rule =
            rule.filter(|rule| has_rule || (question.is_command && *rule == RuleAnswer::Never));
        match rule {
            Some(RuleAnswer::Never) => return Some((PermissionAnswer::Never, AnsweredBy::Rule)),
            Some(RuleAnswer::Allow) => return Some((PermissionAnswer::Once, AnsweredBy::Rule)),
            None => {}
        }
        let remembered = self.remembered.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = remembered.get(&self.key(question)).filter(|_| !question.is_cut);
        if let Some(answer) = answer {
            return Some((*answer, AnsweredBy::Session));
        }
        self.is_unattended.borrow().then_some((PermissionAnswer::Never, AnsweredBy::Nobody))
    }

    /// Stores an answer that a person gave for the session.
    pub fn remember(&self, question: &PermissionQuestion, answer: PermissionAnswer) {
        if matches!(answer, PermissionAnswer::Once | PermissionAnswer::No) || question.is_cut {
            return;
        }
        let mut remembered = self.remembered.0.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.insert(self.key(question), answer);
    }

    fn key(&self, question: &PermissionQuestion) -> QuestionKey {
        let PermissionQuestion { tool, summary, input, diff, directory, is_command, .. } = question;
        // Agents describe the same command differently. The input of a change may be just its path.
        let content = (!is_command).then(|| (input.clone(), diff.clone()));
        (self.member.clone(), tool.clone(), summary.clone(), directory.as_deref().cloned(), content)
    }

    /// Removes the directory of a question if it is the member's own.
    pub(crate) fn simplify(&self, question: &mut PermissionQuestion) {
        let Some(reach) = &self.reach else { return };
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let own = real(&reach.cwd);
        question.directory.take_if(|directory| real(&own.join(&**directory)) == own);
    }
}

/// The identity of a question: the member, the tool, the action, its directory, its input and its change.
type QuestionKey = (String, String, String, Option<PathBuf>, Option<(String, Option<String>)>);

impl PartialEq for Approvals {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.remembered.0, &other.remembered.0)
            && (&self.rules, &self.member) == (&other.rules, &other.member)
    }
}

impl Eq for Approvals {}

/// Answers the questions of a turn, from any task.
#[derive(Debug, Clone)]
pub struct Answerer(pub(crate) mpsc::Sender<(String, PermissionAnswer)>);

impl Answerer {
    /// Answers a question. An answer to a question that is not open is ignored.
    pub fn answer(&self, question: &str, answer: PermissionAnswer) {
        // An ended turn has no questions, and a turn that takes no answers asks none.
        let _ = self.0.try_send((question.to_owned(), answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(command: &str) -> PermissionQuestion {
        PermissionQuestion {
            id: "1".to_owned(),
            tool: "Bash".to_owned(),
            summary: command.to_owned(),
            input: format!("{{\"command\":{command:?}}}"),
            is_command: true,
            ..PermissionQuestion::default()
        }
    }

    #[test]
    fn rules_come_before_answers_and_a_person_last() {
        let rules = PermissionRules {
            allow: vec!["cargo test".to_owned()],
            never: vec!["git push *".to_owned()],
        };
        let approvals = Approvals::new(rules);
        let decide = |approvals: &Approvals, command| approvals.decide(&question(command));
        let rule = |answer| Some((answer, AnsweredBy::Rule));
        assert_eq!(decide(&approvals, "cargo test"), rule(PermissionAnswer::Once));
        assert_eq!(decide(&approvals, "git push -f"), rule(PermissionAnswer::Never));
        assert_eq!(decide(&approvals, "ls"), None);
        approvals.remember(&question("ls"), PermissionAnswer::Once);
        approvals.remember(&question("ls"), PermissionAnswer::No);
        assert_eq!(decide(&approvals, "ls"), None);
        approvals.remember(&question("ls"), PermissionAnswer::Session);
        let session = Some((PermissionAnswer::Session, AnsweredBy::Session));
        assert_eq!(decide(&approvals.clone(), "ls"), session);
        // In another directory, it is another command.
        let elsewhere = |command: &str| {
            let directory = Some(Box::new("/elsewhere".into()));
            PermissionQuestion { directory, ..question(command) }
        };
        for command in ["cargo test", "ls"] {
            assert_eq!(approvals.decide(&elsewhere(command)), None);
        }
        let never = approvals.decide(&elsewhere("git push -f"));
        assert_eq!(never, rule(PermissionAnswer::Never));
        // A yes to a truncated command does not cover one with another end.
        let long = |end: &str| {
            let mut long = question(&format!("{}{end}", "x".repeat(64 << 10)));
            long.shorten();
            long
        };
        assert!(long("; rm a").summary.ends_with("; rm a"));
        approvals.remember(&long("; rm a"), PermissionAnswer::Session);
        assert_eq!(approvals.decide(&long("; rm a")), None);
        // A yes to one change of a file does not cover another change.
        let change = |diff: &str| PermissionQuestion {
            diff: Some(diff.to_owned()),
            is_command: false,
            ..question("write a.txt")
        };
        approvals.remember(&change("+one"), PermissionAnswer::Session);
        assert_eq!(approvals.decide(&change("+one")), session);
        assert_eq!(approvals.decide(&change("+two")), None);
        approvals.set_attended(false);
        let nobody = Some((PermissionAnswer::Never, AnsweredBy::Nobody));
        assert_eq!(decide(&approvals, "ls -l"), nobody);
        approvals.set_attended(true);
        assert_eq!(decide(&approvals, "ls -l"), None);
        // The answers of a session outlive the approvals of a turn, for the same member.
        let answers = SessionAnswers::default();
        let of = |member| Approvals::default().remembered_in(&answers, member);
        of("max").remember(&question("ls"), PermissionAnswer::Session);
        assert_eq!(decide(&of("max"), "ls"), session);
        assert_eq!(decide(&of("cody"), "ls"), None);
    }
}
