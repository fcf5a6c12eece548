//! The open questions of an agent while its turn runs: answered by rules, by a person, or when their time is over.

use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};
use convoke_protocol::permission::{AnsweredBy, PermissionAnswer, PermissionQuestion};
use tokio::time::Instant;

use super::{Supervisor, in_time};
use crate::process::Decision;

/// A question that waits for a person.
pub(super) struct OpenQuestion {
    pub(super) question: PermissionQuestion,
    asked: Instant,
    pub(super) expires: Instant,
}

impl Supervisor<'_> {
    /// Answers new questions that need no person, and queues the others.
    pub(super) fn take_questions(&mut self) {
        for id in std::mem::take(&mut self.withdrawn) {
            self.close_question(&id);
        }
        for question in std::mem::take(&mut self.asked) {
            if let Some((answer, by)) = self.approvals.decide(&question) {
                self.answer(&question, answer, by);
            } else {
                let (asked, expires) = (Instant::now(), in_time(self.limits.ask));
                self.questions.push(OpenQuestion { question, asked, expires });
            }
        }
    }

    pub(super) fn person_answers(&mut self, id: &str, answer: PermissionAnswer) {
        if let Some(question) = self.close_question(id) {
            self.approvals.remember(&question, answer);
            self.answer(&question, answer, AnsweredBy::Person);
            self.reset_deadline();
        }
    }

    /// Ends the questions of an agent that is stopped or has ended: nobody needs to answer them any more.
    pub(super) fn withdraw_questions(&mut self) {
        self.take_questions();
        for open in std::mem::take(&mut self.questions) {
            self.answer(&open.question, PermissionAnswer::Never, AnsweredBy::Withdrawn);
        }
    }

    /// Refuses the questions when no person can answer.
    pub(super) fn abandon_questions(&mut self) {
        for open in std::mem::take(&mut self.questions) {
            self.turn_end += open.asked.elapsed();
            self.answer(&open.question, PermissionAnswer::Never, AnsweredBy::Nobody);
        }
        self.reset_deadline();
    }

    /// Refuses the questions whose time limit has passed.
    pub(super) fn expire_questions(&mut self) {
        let now = Instant::now();
        let open = std::mem::take(&mut self.questions).into_iter();
        let (late, waiting) = open.partition(|open| open.expires <= now);
        self.questions = waiting;
        let late: Vec<OpenQuestion> = late;
        for open in late {
            self.turn_end += open.asked.elapsed();
            self.answer(&open.question, PermissionAnswer::Never, AnsweredBy::Timeout);
        }
        self.reset_deadline();
    }

    /// Removes a question, and extends the time limits that it suspended.
    fn close_question(&mut self, id: &str) -> Option<PermissionQuestion> {
        let at = self.questions.iter().position(|open| open.question.id == id)?;
        let open = self.questions.remove(at);
        self.turn_end += open.asked.elapsed();
        Some(open.question)
    }

    pub(super) fn answer(
        &mut self,
        question: &PermissionQuestion,
        answer: PermissionAnswer,
        by: AnsweredBy,
    ) {
        let decision = match by {
            AnsweredBy::Withdrawn => Decision::Withdrawn,
            _ if answer.allows() => Decision::Allowed,
            _ => Decision::Refused,
        };
        let kind = AgentEventKind::PermissionAnswered { id: question.id.clone(), answer, by };
        self.waiting.push_back(AgentEvent::own(kind));
        let input = self.read(|dialogue, sink| dialogue.answer(&question.id, decision, sink));
        self.send_input(input);
    }
}
