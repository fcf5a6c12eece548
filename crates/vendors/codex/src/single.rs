//! Questions of Codex before 0.99, which keeps only one per turn.
//!
//! In these versions, a second question drops the first, and the next answer to either is applied to the
//! second. A question is therefore asked only once no other question of the same response can follow; earlier
//! ones are reported as dropped.

use std::collections::HashMap;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use convoke_protocol::permission::PermissionQuestion;
use tokio::time::{Instant, Sleep, sleep_until};

/// The time after the end of a response in which its calls ask their questions.
const SETTLES: Duration = Duration::from_millis(500);
/// The time after which a response without a reported end counts as ended.
const UNREPORTED_END: Duration = Duration::from_secs(3);
/// The first version that keeps every question.
const KEEPS_ALL: (u64, u64) = (0, 99);

/// The latest question of each thread.
#[derive(Debug, Default)]
pub(super) struct SingleQuestions {
    threads: HashMap<String, Thread>,
    timer: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug, Default)]
struct Thread {
    /// The tokens counted so far, which change at the end of a response.
    tokens: u64,
    is_response_over: bool,
    latest: Option<PendingQuestion>,
}

#[derive(Debug)]
struct PendingQuestion {
    question: PermissionQuestion,
    /// The time to ask the question; `None` once it was asked.
    due: Option<Instant>,
}

/// A question that another one replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DroppedQuestion {
    pub question: PermissionQuestion,
    pub was_put: bool,
}

impl SingleQuestions {
    /// Returns whether a server with this name (`convoke/0.98.0 (…)`) keeps only one question.
    pub(super) fn are_of(user_agent: &str) -> bool {
        let version = user_agent.split_once('/').map_or("", |(_, version)| version);
        let mut numbers = version.split('.').map_while(|number| number.parse::<u64>().ok());
        match (numbers.next(), numbers.next()) {
            (Some(major), Some(minor)) => (major, minor) < KEEPS_ALL,
            _ => false,
        }
    }

    /// Adds a question, and returns the one that it drops.
    pub(super) fn take(
        &mut self,
        thread: &str,
        question: PermissionQuestion,
    ) -> Option<DroppedQuestion> {
        let thread = self.threads.entry(thread.to_owned()).or_default();
        let wait = if thread.is_response_over { SETTLES } else { UNREPORTED_END };
        let latest = PendingQuestion { question, due: Some(Instant::now() + wait) };
        let dropped = thread.latest.replace(latest)?;
        Some(DroppedQuestion { was_put: dropped.due.is_none(), question: dropped.question })
    }

    /// Records the counted tokens. At the start of a response, they are those of the previous one.
    pub(super) fn count(&mut self, thread: &str, tokens: u64) {
        let thread = self.threads.entry(thread.to_owned()).or_default();
        thread.is_response_over = tokens != std::mem::replace(&mut thread.tokens, tokens);
        if let Some(due) = thread.latest.as_mut().and_then(|latest| latest.due.as_mut())
            && thread.is_response_over
        {
            *due = Instant::now() + SETTLES;
        }
    }

    /// Removes an answered question.
    pub(super) fn answered(&mut self, id: &str) {
        for thread in self.threads.values_mut() {
            thread.latest.take_if(|latest| latest.question.id == id);
        }
    }

    /// Returns the ids of the questions that were not asked.
    pub(super) fn waiting(&self) -> Vec<String> {
        let latest = self.threads.values().filter_map(|thread| thread.latest.as_ref());
        latest.filter(|it| it.due.is_some()).map(|it| it.question.id.clone()).collect()
    }

    /// Waits until a question is due.
    pub(super) fn poll_due(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let latest = self.threads.values().filter_map(|thread| thread.latest.as_ref());
        let Some(due) = latest.filter_map(|latest| latest.due).min() else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if timer.deadline() != due {
            timer.as_mut().reset(due);
        }
        timer.as_mut().poll(context)
    }

    /// Returns the questions that are due.
    pub(super) fn due(&mut self) -> Vec<PermissionQuestion> {
        let now = Instant::now();
        let latest = self.threads.values_mut().filter_map(|thread| thread.latest.as_mut());
        let due = latest.filter_map(|latest| {
            latest.due.take_if(|due| *due <= now)?;
            Some(latest.question.clone())
        });
        due.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(id: &str) -> PermissionQuestion {
        PermissionQuestion { id: id.to_owned(), ..PermissionQuestion::default() }
    }

    #[test]
    fn versions_before_0_99_keep_one_question() {
        for (name, keeps_one) in [
            ("convoke/0.98.0 (Debian 12.0.0; x86_64) dumb (convoke; 0.1)", true),
            ("convoke/0.9.0", true),
            ("convoke/0.99.0 (x)", false),
            ("convoke/0.166.0 (x)", false),
            ("convoke/1.2.0", false),
            ("convoke", false),
            ("", false),
        ] {
            assert_eq!(SingleQuestions::are_of(name), keeps_one, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_put_when_no_other_can_follow() {
        let mut questions = SingleQuestions::default();
        let wait = |by| tokio::time::advance(Duration::from_millis(by));
        assert_eq!(questions.take("t", question("0")), None);
        wait(600).await;
        assert_eq!(questions.due(), [], "the response has not ended");
        questions.count("t", 7);
        let dropped = DroppedQuestion { question: question("0"), was_put: false };
        assert_eq!(questions.take("t", question("1")), Some(dropped));
        assert_eq!(questions.take("sub-agent", question("2")), None);
        assert_eq!(questions.due(), []);
        wait(500).await;
        assert_eq!(questions.due(), [question("1")]);
        assert_eq!(questions.due(), [], "put once");
        // The sub-agent's response reports no end.
        assert_eq!(questions.waiting(), ["2"]);
        wait(2500).await;
        assert_eq!(questions.due(), [question("2")]);
        assert!(questions.waiting().is_empty());
        questions.answered("1");
        // The next response has begun.
        questions.count("t", 7);
        assert_eq!(questions.take("t", question("3")), None);
        wait(500).await;
        assert_eq!(questions.due(), []);
    }
}
