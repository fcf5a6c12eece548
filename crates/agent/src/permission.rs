//! Questions that an agent asks before it acts, and the answers of a person.
//!
//! Only an [`Answerer`] answers a question, and only the caller of a turn has one. No text of a conversation
//! can answer a question.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use convoke_team::{PermissionRules, RuleAnswer};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::sandbox::Reach;

/// An action that an agent asks to take.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PermissionQuestion {
    /// The id of the question in its turn.
    pub id: String,
    /// The name of the tool.
    pub tool: String,
    /// The command, or a description of the action, in a few lines.
    pub summary: String,
    /// The tool's input as JSON text; serialized as a JSON value.
    #[serde(serialize_with = "as_json")]
    pub input: String,
    /// The change to a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The directory that the command would run in, if it is not the member's working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<Box<PathBuf>>,
    /// Whether the summary is a shell command.
    #[serde(skip)]
    pub is_command: bool,
    /// Whether part of the question is too long to show. A yes to such a question counts once.
    #[serde(skip)]
    pub is_cut: bool,
    /// The files that the tool would read and change.
    #[serde(skip)]
    pub files: Box<TouchedFiles>,
}

/// The files of a tool call, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TouchedFiles {
    /// The files that the call would read.
    pub reads: Vec<PathBuf>,
    /// The files that the call would change.
    pub changes: Vec<PathBuf>,
}

/// Serializes JSON text as a JSON value. Truncated text is not valid JSON and stays a string.
fn as_json<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    value.serialize(serializer)
}

/// The maximum number of bytes shown of each text of a question.
const SHOWN: usize = 64 << 10;
/// The number of them that are from the end of the text.
const SHOWN_END: usize = 16 << 10;

impl PermissionQuestion {
    /// Cuts the middle of long texts. A command that was cut matches no rule and no earlier answer.
    pub(crate) fn shorten(&mut self) {
        let Self { tool, summary, input, diff, is_command, is_cut, .. } = self;
        for text in [tool, summary, input].into_iter().chain(diff) {
            if text.len() > SHOWN {
                (*is_command, *is_cut) = (false, true);
                let start = text.floor_char_boundary(SHOWN - SHOWN_END);
                let end = text.ceil_char_boundary(text.len() - SHOWN_END);
                let mark = format!("\n[… {} bytes cut]\n", end - start);
                text.replace_range(start..end, &mark);
            }
        }
    }
}

/// The answer of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionAnswer {
    /// Yes, this time.
    Once,
    /// Yes, and again in this session.
    Session,
    /// No, this time.
    No,
    /// No, and not again in this session.
    Never,
}

impl PermissionAnswer {
    /// Every answer.
    pub const ALL: [Self; 4] = [Self::Once, Self::Session, Self::No, Self::Never];
    /// The answers offered at a terminal and on the web page.
    pub const OFFERED: [Self; 3] = [Self::Once, Self::Session, Self::Never];
    /// The answers offered for a question that cannot be shown whole.
    pub const OFFERED_ONCE: [Self; 2] = [Self::Once, Self::Never];

    /// Returns the name of the answer.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::No => "no",
            Self::Never => "never",
        }
    }

    /// Returns whether the answer allows the action.
    pub const fn allows(self) -> bool {
        matches!(self, Self::Once | Self::Session)
    }
}

/// The origin of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AnsweredBy {
    /// A person, to this question.
    Person,
    /// A person, to the same question earlier in the session.
    Session,
    /// A rule of the user's `permissions.toml`.
    Rule,
    /// Refused without asking, because the sandbox would stop the action.
    Sandbox,
    /// No person answered in time.
    Timeout,
    /// Refused without asking, because there is no person to ask.
    Nobody,
    /// Not answered, because the turn was stopped or the agent withdrew the question.
    Withdrawn,
}

impl AnsweredBy {
    /// Returns the name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Session => "session",
            Self::Rule => "rule",
            Self::Sandbox => "sandbox",
            Self::Timeout => "timeout",
            Self::Nobody => "nobody",
            Self::Withdrawn => "withdrawn",
        }
    }
}

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
            let mut long = question(&format!("{}{end}", "x".repeat(SHOWN)));
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
