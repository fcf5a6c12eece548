//! Tracks unfinished tool calls, so that every call gets an end.

use std::borrow::Cow;
use std::collections::HashSet;

use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};

/// The maximum number of tracked calls.
const MAX_OPEN_TOOLS: usize = 1 << 12;

/// The tool calls of a turn: the open ones in order, and the ids of the finished ones.
#[derive(Debug, Default)]
pub(super) struct OpenTools {
    open: Vec<OpenTool>,
    finished: HashSet<String>,
}

#[derive(Debug)]
struct OpenTool {
    sub_agent: Option<String>,
    id: String,
}

impl OpenTools {
    /// Records an event. Returns `false` for a duplicate: some programs report the end of a refused call twice.
    pub(super) fn note(&mut self, event: &AgentEvent<'_>) -> bool {
        match &event.kind {
            AgentEventKind::ToolStarted { id, .. } if self.open.len() < MAX_OPEN_TOOLS => {
                let sub_agent = event.sub_agent.as_deref().map(str::to_owned);
                self.open.push(OpenTool { sub_agent, id: id.clone().into_owned() });
                self.finished.remove(&**id);
            }
            AgentEventKind::ToolFinished { id, .. } => {
                self.open.retain(|open| open.id != **id);
                return self.finished.len() >= MAX_OPEN_TOOLS
                    || self.finished.insert(id.clone().into_owned());
            }
            _ => {}
        }
        true
    }

    /// Ends the open calls with their turn.
    pub(super) fn end(&mut self) -> impl Iterator<Item = AgentEvent<'static>> {
        self.open.drain(..).map(OpenTool::end)
    }
}

impl OpenTool {
    fn end(self) -> AgentEvent<'static> {
        let output = Cow::Borrowed("the turn ended before the tool finished");
        let kind = AgentEventKind::ToolFinished { id: Cow::Owned(self.id), ok: false, output };
        AgentEvent::new(self.sub_agent.map(Cow::Owned), kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_have_not_finished_end_with_the_turn() {
        let mut tools = OpenTools::default();
        for id in ["1", "2", "3"] {
            let (name, input) = ("Bash".into(), "{}".into());
            tools.note(&AgentEvent::own(AgentEventKind::ToolStarted {
                id: id.into(),
                name,
                input,
            }));
        }
        let finished = AgentEventKind::ToolFinished { id: "2".into(), ok: true, output: "".into() };
        let finished = AgentEvent::own(finished);
        assert!(tools.note(&finished));
        assert!(!tools.note(&finished), "it has one end");
        let ends: Vec<_> = tools.end().map(|event| event.kind).collect();
        let ids = ends.iter().filter_map(|kind| match kind {
            AgentEventKind::ToolFinished { id, ok: false, .. } => Some(&**id),
            _ => None,
        });
        assert_eq!(ids.collect::<Vec<_>>(), ["1", "3"]);
        assert_eq!(tools.end().count(), 0);
    }
}
