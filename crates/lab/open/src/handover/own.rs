//! Convoke's own sessions: the events of a log as entries of a history.

use std::collections::HashMap;
use std::sync::Arc;

use convoke_core::SpeakerType;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::permission::AnsweredBy;
use convoke_protocol::turn::TurnState;
use convoke_protocol::window::{At, Place};
use convoke_source::{Entry, EntryKind, Facts, Sink as _};

use super::History;

/// The maximum number of unanswered questions that are remembered.
const MAX_QUESTIONS: usize = 1_000;

/// Collects the events of a log.
#[derive(Debug)]
pub struct OwnLog {
    pub history: History,
    file: Arc<str>,
    /// The questions that a person may answer, by id.
    questions: HashMap<String, String>,
}

impl OwnLog {
    /// Creates a log without events.
    pub fn new(history: History) -> Self {
        let file = history.name.as_str().into();
        Self { history, file, questions: HashMap::new() }
    }

    /// Adds the next event.
    pub fn add(&mut self, event: &Event) {
        let kind = match &event.kind {
            EventKind::Created { directory, task, .. } => {
                let facts = Facts { cwd: Some(directory), ..Facts::default() };
                self.take(event, None, EntryKind::Facts(facts));
                let Some(task) = task else { return };
                let plan = &format!("The task of the team: {task}");
                return self.take(event, None, EntryKind::PlanApproved { plan });
            }
            EventKind::Task { task, by } => {
                let plan = &format!("The task of the team, set by {by}: {task}");
                return self.take(event, None, EntryKind::PlanApproved { plan });
            }
            EventKind::Message(message) => {
                let speaker = &message.message.speaker;
                if speaker.kind == Some(SpeakerType::Human) {
                    EntryKind::Person { text: &message.text }
                } else {
                    self.history.set_author(Some(speaker.name()));
                    EntryKind::Text { text: &message.text }
                }
            }
            EventKind::PermissionAsked { question, .. } => {
                if self.questions.len() < MAX_QUESTIONS {
                    let asked = format!("{}: {}", question.tool, question.summary);
                    self.questions.insert(question.id.clone(), asked);
                }
                return;
            }
            EventKind::PermissionAnswered { id, answer, by, .. } => {
                let question = self.questions.remove(id);
                let Some(question) = question.filter(|_| *by == AnsweredBy::Person) else { return };
                let answer = answer.as_str();
                let kind = EntryKind::PersonAnswered { question: &question, answer };
                return self.take(event, None, kind);
            }
            EventKind::TurnEnded { state, result, .. } if *state != TurnState::Done => {
                let message = &result.verdict.to_string();
                return self.take(event, None, EntryKind::Failed { status: None, message });
            }
            EventKind::Agent { member, event: said, .. } => {
                self.history.set_author(Some(member.as_str()));
                return self.add_of_agent(event, said);
            }
            _ => return,
        };
        self.take(event, None, kind);
    }

    /// Adds an event of an agent. Its texts are left out but for those of sub-agents: its reply is a message.
    fn add_of_agent(&mut self, event: &Event, said: &AgentEvent<'_>) {
        let kind = match &said.kind {
            AgentEventKind::Started { model, .. } => {
                EntryKind::Facts(Facts { model: model.as_deref(), ..Facts::default() })
            }
            AgentEventKind::Text { text, .. } if said.sub_agent.is_some() => {
                EntryKind::Text { text }
            }
            AgentEventKind::Thinking { text, .. } => EntryKind::Thinking { text },
            AgentEventKind::ToolStarted { id, name, input } => EntryKind::Call { id, name, input },
            AgentEventKind::ToolFinished { id, ok, output } => {
                EntryKind::Result { id, ok: *ok, output }
            }
            AgentEventKind::FileChange { changes } => EntryKind::Changed(changes.clone()),
            AgentEventKind::Todo { items } => EntryKind::Todo(items.clone()),
            _ => return,
        };
        self.take(event, said.sub_agent.as_deref(), kind);
    }

    fn take(&mut self, event: &Event, agent: Option<&str>, kind: EntryKind<'_>) {
        let number = event.number.map_or(0, |number| number.0);
        let place = Place { file: Arc::clone(&self.file), at: At::Row(number.to_string().into()) };
        let at = Some(event.at);
        // A history takes every entry.
        let _ = self.history.take(Entry { place, at, agent, kind });
    }
}

#[cfg(test)]
mod tests {
    use convoke_redact::Redactor;

    use super::super::{DEFAULT_BUDGET, FileToday, Options, write};
    use super::*;

    /// The log that documents the format of events.
    const LOG: &str = include_str!("../../../../engine/protocol/src/event/events.jsonl");

    #[test]
    fn the_events_of_a_log_are_entries_of_a_history() {
        let history = History::new("convoke:0b1c", DEFAULT_BUDGET, &Redactor::default());
        let mut log = OwnLog::new(history);
        for line in LOG.lines() {
            log.add(&serde_json::from_str(line).unwrap());
        }
        let options = Options {
            budget: DEFAULT_BUDGET,
            message: None,
            shown_by: "convoke sessions show 0b1c",
            today: &|_| FileToday::Unknown,
        };
        let handover = write(&log.history, &options).unwrap();
        for words in [
            "> The task of the team: a task",
            "> The task of the team, set by max: go on",
            "### Before the first message, by Max\n> done",
        ] {
            assert!(handover.text.contains(words), "{words} in {}", handover.text);
        }
    }
}
