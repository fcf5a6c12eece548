//! Removes secrets from events and results, before they are shown or stored.

use std::borrow::Cow;
use std::collections::BTreeMap;

use convoke_core::Diagnostic;
use convoke_files::failpoint;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};
use convoke_protocol::permission::PermissionQuestion;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_redact::{Redactor, StreamRedactor};

use crate::diagnostics;
use crate::turn::TurnResult;

/// The size above which texts are redacted on a blocking thread, so that they do not delay the runtime.
const LARGE: usize = 256 << 10;

/// Removes the secrets from the events of one turn. A secret may be split between pieces of a text, so the
/// possible start of one is held back until the next piece arrives.
#[derive(Debug)]
pub struct EventRedactor {
    redactor: Redactor,
    /// The streamed texts.
    texts: BTreeMap<TextOrigin, StreamRedactor>,
}

/// The identity of a streamed text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TextOrigin {
    sub_agent: Option<Cow<'static, str>>,
    is_thought: bool,
}

impl TextOrigin {
    fn from_event(event: &AgentEvent<'static>) -> Option<(Self, TextPart)> {
        let (is_thought, part) = match &event.kind {
            AgentEventKind::Text { part, .. } => (false, *part),
            AgentEventKind::Thinking { part, .. } => (true, *part),
            _ => return None,
        };
        Some((Self { sub_agent: event.sub_agent.clone(), is_thought }, part))
    }

    /// Creates an event from the held-back end of a text.
    fn rest(self, mut stream: StreamRedactor) -> Option<AgentEvent<'static>> {
        let text = Some(stream.finish()).filter(|text| !text.is_empty())?;
        let (text, part) = (Cow::Owned(text), TextPart::Delta);
        let kind = if self.is_thought {
            AgentEventKind::Thinking { text, part }
        } else {
            AgentEventKind::Text { text, part }
        };
        Some(AgentEvent { sub_agent: self.sub_agent, kind })
    }
}

impl EventRedactor {
    /// Creates a redactor for the events of one turn.
    pub fn new(redactor: Redactor) -> Self {
        Self { redactor, texts: BTreeMap::new() }
    }

    /// Redacts an event, and returns the events that can now be shown and stored.
    pub async fn take(&mut self, mut event: AgentEvent<'static>) -> Vec<AgentEvent<'static>> {
        match TextOrigin::from_event(&event) {
            Some((origin, TextPart::Delta)) => {
                let stream = self.texts.entry(origin).or_insert_with(|| self.redactor.stream());
                let has_text = push(stream, &mut event).await;
                if let Some(sub_agent) = &mut event.sub_agent {
                    self.redactor.redact_in_place(sub_agent.to_mut());
                }
                if has_text { vec![event] } else { Vec::new() }
            }
            Some((origin, TextPart::Whole)) => {
                let rest = self.texts.remove(&origin).and_then(|stream| origin.rest(stream));
                rest.into_iter().chain([redacted(event, &self.redactor).await]).collect()
            }
            None => vec![redacted(event, &self.redactor).await],
        }
    }

    /// Replaces the redactor, and returns the held-back ends of incomplete texts.
    pub fn replace(&mut self, redactor: Redactor) -> Vec<AgentEvent<'static>> {
        self.redactor = redactor;
        self.finish()
    }

    /// Returns the held-back ends of incomplete texts.
    pub fn finish(&mut self) -> Vec<AgentEvent<'static>> {
        let texts = std::mem::take(&mut self.texts).into_iter();
        texts.filter_map(|(origin, stream)| origin.rest(stream)).collect()
    }
}

/// Redacts the piece of text in an event, and returns whether any of it can be shown now. Yields to the runtime
/// between large parts.
async fn push(stream: &mut StreamRedactor, event: &mut AgentEvent<'static>) -> bool {
    let (AgentEventKind::Text { text, .. } | AgentEventKind::Thinking { text, .. }) =
        &mut event.kind
    else {
        return false;
    };
    if text.len() <= LARGE {
        match stream.push(text) {
            Cow::Borrowed(all) if all.len() == text.len() => {}
            shown => *text = Cow::Owned(shown.into_owned()),
        }
        return !text.is_empty();
    }
    let mut shown = String::new();
    let mut rest = &**text;
    while !rest.is_empty() {
        let (piece, left) = rest.split_at(rest.floor_char_boundary(LARGE));
        shown.push_str(&stream.push(piece));
        rest = left;
        tokio::task::yield_now().await;
    }
    *text = Cow::Owned(shown);
    !text.is_empty()
}

/// Returns an event without secrets. An event whose redaction failed is replaced by a warning: it may contain some.
async fn redacted(mut event: AgentEvent<'static>, redactor: &Redactor) -> AgentEvent<'static> {
    let mut bytes = 0;
    each_text(&mut event, &mut |text| bytes += text.len());
    if bytes <= LARGE {
        redact_event(&mut event, redactor);
        return event;
    }
    let redactor = redactor.clone();
    let redact = move || {
        failpoint::reach_task("event redaction");
        redact_event(&mut event, &redactor);
        event
    };
    tokio::task::spawn_blocking(redact).await.unwrap_or_else(|error| {
        let message = format!("an event of {bytes} bytes was left out: {error}");
        let failed = Diagnostic::new(diagnostics::AGENT_REDACTION_FAILED, message);
        AgentEvent::own(AgentEventKind::Warning(failed))
    })
}

/// Removes the secrets from every text of an event.
pub fn redact_event(event: &mut AgentEvent<'static>, redactor: &Redactor) {
    each_text(event, &mut |text| {
        redactor.redact_in_place(text);
    });
}

/// Removes the secrets from a warning or a retry. Other events are unchanged.
pub(crate) fn redact_notice(
    mut event: AgentEvent<'static>,
    redactor: &Redactor,
) -> AgentEvent<'static> {
    if matches!(event.kind, AgentEventKind::Warning(_) | AgentEventKind::Retry { .. }) {
        redact_event(&mut event, redactor);
    }
    event
}

/// Removes the secrets from a result, and returns the number of secrets in the reply. If that fails, the result is that
/// of a failed turn without a reply, because the reply may contain secrets; the diagnostic is for the caller to report.
pub async fn redact_result(
    result: &mut TurnResult,
    redactor: &Redactor,
) -> Result<u64, Diagnostic> {
    redact_verdict(&mut result.verdict, redactor);
    for diagnostic in &mut result.diagnostics {
        redactor.redact_in_place(&mut diagnostic.message);
    }
    if let Some(model) = &mut result.model {
        redactor.redact_in_place(model);
    }
    let mut reply = std::mem::take(&mut result.reply);
    let redactor = redactor.clone();
    redact_reply(result, move || {
        failpoint::reach_task("redaction");
        let places = redactor.redact_in_place(&mut reply);
        (reply, places)
    })
    .await
}

/// Redacts the reply of a result on a blocking thread, where a panic is an error.
async fn redact_reply(
    result: &mut TurnResult,
    redact: impl FnOnce() -> (String, u64) + Send + 'static,
) -> Result<u64, Diagnostic> {
    match tokio::task::spawn_blocking(redact).await {
        Ok((reply, places)) => {
            result.reply = reply;
            Ok(places)
        }
        Err(error) => {
            let message = format!("the reply could not be redacted and was not stored: {error}");
            let failure = Failure::new(FailureReason::Other, message.clone());
            result.verdict = Verdict::Failed(failure);
            // The thread repeats the reply.
            result.thread_append = None;
            Err(Diagnostic::new(diagnostics::AGENT_REDACTION_FAILED, message))
        }
    }
}

/// Removes the secrets from the message of a failure.
pub(crate) fn redact_verdict(verdict: &mut Verdict, redactor: &Redactor) {
    if let Verdict::Failed(failure) = verdict {
        redactor.redact_in_place(&mut failure.message);
    }
}

/// Visits every text of an event that came from an agent or a server.
fn each_text(event: &mut AgentEvent<'static>, visit: &mut dyn FnMut(&mut String)) {
    let mut show = |text: &mut Cow<'static, str>| visit(text.to_mut());
    event.sub_agent.iter_mut().for_each(&mut show);
    match &mut event.kind {
        AgentEventKind::Started { session, model } => {
            [session, model].into_iter().flatten().for_each(show);
        }
        AgentEventKind::Text { text, .. }
        | AgentEventKind::Thinking { text, .. }
        | AgentEventKind::Retry { reason: text, .. } => show(text),
        AgentEventKind::ToolStarted { id, name, input } => {
            [id, name, input].into_iter().for_each(show);
        }
        AgentEventKind::ToolFinished { id, output, .. } => [id, output].into_iter().for_each(show),
        AgentEventKind::Unknown { name, json } => [name, json].into_iter().for_each(show),
        AgentEventKind::FileChange { changes } => {
            for change in changes {
                [&mut change.path, &mut change.change].into_iter().for_each(&mut show);
                if let Some(diff) = &mut change.diff {
                    diff.before.iter_mut().chain([&mut diff.after]).for_each(&mut show);
                }
            }
        }
        AgentEventKind::Todo { items } => {
            items.iter_mut().map(|item| &mut item.text).for_each(show);
        }
        AgentEventKind::PermissionAsked { question, .. } => {
            let PermissionQuestion { tool, summary, input, diff, .. } = question;
            [tool, summary, input].into_iter().chain(diff).for_each(visit);
        }
        AgentEventKind::Warning(diagnostic) => visit(&mut diagnostic.message),
        AgentEventKind::Finished { verdict: Verdict::Failed(failure) } => {
            visit(&mut failure.message);
        }
        AgentEventKind::Finished { .. }
        | AgentEventKind::Request { .. }
        | AgentEventKind::PermissionAnswered { .. }
        | AgentEventKind::Received(_)
        | AgentEventKind::Usage(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use convoke_protocol::agent_event::{FileChange, FileDiff, TodoItem, TodoState};

    use super::*;

    fn redactor() -> Redactor {
        Redactor::default().and_key("correct-horse")
    }

    #[tokio::test]
    async fn every_text_of_an_event_is_redacted() {
        let secret = || Cow::Borrowed("a correct-horse");
        let failure = Failure::new(FailureReason::Auth, "a correct-horse");
        let item = TodoItem { text: secret(), state: TodoState::Pending };
        let notice = Diagnostic::new(diagnostics::AGENT_NOTICE, "a correct-horse");
        let reason = secret();
        for kind in [
            AgentEventKind::Started { session: Some(secret()), model: Some(secret()) },
            AgentEventKind::Text { text: secret(), part: TextPart::Whole },
            AgentEventKind::Thinking { text: secret(), part: TextPart::Delta },
            AgentEventKind::ToolStarted { id: secret(), name: secret(), input: secret() },
            AgentEventKind::ToolFinished { id: secret(), ok: true, output: secret() },
            AgentEventKind::FileChange {
                changes: vec![FileChange {
                    path: secret(),
                    change: secret(),
                    diff: Some(FileDiff { before: Some(secret()), after: secret() }),
                }],
            },
            AgentEventKind::Todo { items: vec![item] },
            AgentEventKind::Unknown { name: secret(), json: secret() },
            AgentEventKind::Retry { attempt: 1, max: None, status: None, wait: None, reason },
            AgentEventKind::Warning(notice),
            AgentEventKind::Finished { verdict: Verdict::Failed(failure) },
        ] {
            let event = AgentEvent::new(Some(secret()), kind);
            let text = format!("{:?}", EventRedactor::new(redactor()).take(event).await);
            assert!(text.contains("a [redacted]") && !text.contains("horse"), "{text}");
        }
    }

    #[tokio::test]
    async fn a_reply_whose_redaction_panics_is_a_failure_and_not_an_empty_reply() {
        // The choice holds for the whole process: no other test uses this name.
        failpoint::panic_in("panicking redaction");
        let append = convoke_protocol::thread::ThreadAppend {
            thread: convoke_protocol::id::ThreadId::parse("t").unwrap(),
            known: 0,
            lines: vec!["hello".to_owned()],
        };
        let mut result = TurnResult { reply: "hello".to_owned(), ..TurnResult::new(Verdict::Done) };
        result.thread_append = Some(append);
        let redacted = redact_reply(&mut result, || {
            failpoint::reach_task("panicking redaction");
            (String::new(), 0)
        });
        let diagnostic = redacted.await.unwrap_err();
        assert_eq!(diagnostic.code, diagnostics::AGENT_REDACTION_FAILED);
        assert!(diagnostic.message.contains("chosen to panic"), "{}", diagnostic.message);
        assert!(matches!(result.verdict, Verdict::Failed(_)), "{:?}", result.verdict);
        assert_eq!(result.thread_append, None);
    }

    #[tokio::test]
    async fn a_large_text_is_redacted_like_a_small_one() {
        let text = format!("{} correct-horse é", "x ".repeat(LARGE));
        let clean = redactor().redact(&text).into_owned();
        for part in [TextPart::Whole, TextPart::Delta] {
            let mut events = EventRedactor::new(redactor());
            let event = AgentEvent::own(AgentEventKind::Text { text: text.clone().into(), part });
            let mut shown = events.take(event).await;
            shown.extend(events.finish());
            let shown = shown.into_iter().map(|event| match event.kind {
                AgentEventKind::Text { text, .. } => text,
                other => panic!("{other:?}"),
            });
            assert!(shown.collect::<String>() == clean, "{part:?}");
        }
        let failed = Failure::new(FailureReason::Auth, "a correct-horse");
        let mut result = TurnResult { reply: text, ..TurnResult::failed(failed) };
        result.model = Some("correct-horse".to_owned());
        assert_eq!(redact_result(&mut result, &redactor()).await, Ok(1));
        assert!(result.reply == clean && !format!("{result:?}").contains("horse"));
    }
}
