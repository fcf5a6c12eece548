//! What was said and done, and the requests that it tells of.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use convoke_protocol::window::Role;
use convoke_source::{EntryKind, Kept, Sink};
use convoke_wire::normal::Parts;
use memchr::memmem;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::messages::{self, Content, block_value};
use super::person::{INTERRUPTED, written_by_person};
use super::reader::{Reader, Spot, purpose};
use super::record::{Message, Raw, Record, is_true, list, name, number, parsed, text};
use super::request_log::{self, Pending, WindowSource};
use super::tool_result;
use super::tree::Node;
use super::usage;

/// The model of answers that the program wrote itself.
const SYNTHETIC: &str = "<synthetic>";
/// What an error that the program shows begins with.
const API_ERROR: &str = "API Error: ";
/// Calls that start sub-agents, as the program writes them.
const AGENT_CALLS: [&str; 2] = ["\"name\":\"Agent\"", "\"name\":\"Task\""];

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Attachment<'l> {
    #[serde(borrow, rename = "type")]
    kind: Raw<'l>,
    #[serde(borrow)]
    prompt: Raw<'l>,
    #[serde(borrow)]
    command_mode: Raw<'l>,
}

impl Reader {
    pub(super) fn user(
        &mut self,
        record: &Record<'_>,
        spot: &Spot,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        let Some(message) = parsed::<Message<'_>>(record.message) else {
            self.report.broken(spot.place.clone(), &"it has no message");
            return ControlFlow::Continue(());
        };
        if self.kept == Kept::Figures {
            return ControlFlow::Continue(());
        }
        let is_person = spot.agent.is_none() && !is_true(record.is_meta);
        if is_true(record.is_compact_summary) {
            self.take_content(record, &message, Role::User, spot, &mut |_| {
                ControlFlow::Continue(())
            })?;
            let log = &mut self.files[spot.file].log;
            let dropped = std::mem::take(&mut log.parts);
            let blocks = list(message.content).into_iter().map(|block| block_value(block).0);
            let whole = text(message.content).map(Cow::into_owned);
            let joined =
                || blocks.filter_map(|it| it["text"].as_str().map(str::to_owned)).collect();
            let summary: String = whole.unwrap_or_else(joined);
            return spot.tell(sink, EntryKind::Compacted { summary: &summary, dropped });
        }
        let mut is_ok = true;
        self.take_content(record, &message, Role::User, spot, &mut |block| match block {
            Block::Text(text) if text.starts_with(INTERRUPTED) => {
                spot.tell(sink, EntryKind::Failed { status: None, message: text })
            }
            Block::Text(text) if is_person => match written_by_person(text) {
                Some(text) => spot.tell(sink, EntryKind::Person { text: &text }),
                None => ControlFlow::Continue(()),
            },
            Block::Other(block) if block["type"] == "tool_result" => {
                is_ok = block["is_error"] != true;
                let id = block["tool_use_id"].as_str().unwrap_or_default();
                let output = &block["content"];
                let texts = output.as_array().into_iter().flatten();
                let output = output.as_str().map_or_else(
                    || Cow::Owned(texts.filter_map(|it| it["text"].as_str()).collect::<String>()),
                    Cow::Borrowed,
                );
                spot.tell(sink, EntryKind::Result { id, ok: is_ok, output: &output })
            }
            Block::Text(_) | Block::Other(_) => ControlFlow::Continue(()),
        })?;
        match record.tool_use_result.filter(|_| is_ok) {
            Some(recorded) => {
                let tasks = &mut self.files[spot.file].log.tasks;
                tool_result::tell(recorded, tasks, &mut |kind| spot.tell(sink, kind))
            }
            None => ControlFlow::Continue(()),
        }
    }

    pub(super) fn attachment(
        &mut self,
        record: &Record<'_>,
        spot: &Spot,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        if self.kept == Kept::Figures {
            return ControlFlow::Continue(());
        }
        self.add_node(record, spot, None, [].into(), [].into());
        if record.rendered.is_some() {
            let content = messages::content(record, spot.place.clone(), self.kept.max_bytes());
            self.files[spot.file].log.parts += content.parts.len() as u64;
            self.messages.contents.insert(spot.line, content);
        }
        // A message that a person wrote while the agent was working.
        let attachment: Attachment<'_> = parsed(record.attachment).unwrap_or_default();
        let is_queued = text(attachment.kind).as_deref() == Some("queued_command");
        let is_prompt = text(attachment.command_mode).is_none_or(|mode| mode == "prompt");
        if !is_queued || !is_prompt || spot.agent.is_some() {
            return ControlFlow::Continue(());
        }
        let blocks = list(attachment.prompt).into_iter().map(|block| block_value(block).0);
        let texts = text(attachment.prompt).map(Cow::into_owned).into_iter();
        let texts = texts.chain(blocks.filter_map(|it| it["text"].as_str().map(str::to_owned)));
        for prompt in texts {
            if let Some(text) = written_by_person(&prompt) {
                spot.tell(sink, EntryKind::Person { text: &text })?;
            }
        }
        ControlFlow::Continue(())
    }

    pub(super) fn assistant(
        &mut self,
        record: &Record<'_>,
        spot: &Spot,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        let Some(message) = parsed::<Message<'_>>(record.message) else {
            self.report.broken(spot.place.clone(), &"it has no message");
            return ControlFlow::Continue(());
        };
        let model = text(message.model);
        let is_synthetic =
            model.as_deref() == Some(SYNTHETIC) || is_true(record.is_api_error_message);
        if is_synthetic {
            return self.synthetic(record, &message, spot, sink);
        }
        // The request comes before its answer, and its window ends before it.
        self.answer(record, &message, spot, sink)?;
        self.tell_facts(record, model.as_deref(), spot, sink)?;
        if self.kept == Kept::Figures {
            return ControlFlow::Continue(());
        }
        self.take_content(record, &message, Role::Assistant, spot, &mut |block| match block {
            Block::Text(text) => spot.tell(sink, EntryKind::Text { text }),
            Block::Other(block) => {
                let field = |name: &str| block[name].as_str().unwrap_or_default();
                match field("type") {
                    "thinking" => spot.tell(sink, EntryKind::Thinking { text: field("thinking") }),
                    "redacted_thinking" => spot.tell(sink, EntryKind::Thinking { text: "" }),
                    "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                        let (id, name) = (field("id"), field("name"));
                        let input = block["input"].to_string();
                        spot.tell(sink, EntryKind::Call { id, name, input: &input })
                    }
                    _ => ControlFlow::Continue(()),
                }
            }
        })
    }

    /// Takes a message that the program wrote in the model's name: it tells of a failure.
    fn synthetic(
        &mut self,
        record: &Record<'_>,
        message: &Message<'_>,
        spot: &Spot,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        let blocks = list(message.content).into_iter().map(|block| block_value(block).0);
        let told = text(message.content).map(Cow::into_owned);
        let told =
            told.into_iter().chain(blocks.filter_map(|it| it["text"].as_str().map(str::to_owned)));
        let told: String = told.collect();
        if self.kept != Kept::Figures {
            self.take_content(record, message, Role::Assistant, spot, &mut |_| {
                ControlFlow::Continue(())
            })?;
        }
        if !is_true(record.is_api_error_message) && !told.starts_with(API_ERROR) {
            return ControlFlow::Continue(());
        }
        let status = number(record.api_error_status).and_then(|it| u16::try_from(it).ok());
        let written = || told.strip_prefix(API_ERROR)?.get(..3)?.parse().ok();
        let status = status.or_else(written);
        self.failure(record, status, spot, sink)?;
        spot.tell(sink, EntryKind::Failed { status, message: &told })
    }

    /// Adds a record to the tree and to what can be a message, and tells of its blocks.
    fn take_content(
        &mut self,
        record: &Record<'_>,
        message: &Message<'_>,
        role: Role,
        spot: &Spot,
        tell: &mut dyn FnMut(Block<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut parts = Parts::new(spot.place.clone(), self.kept.max_bytes());
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        let mut is_whole = true;
        let mut flow = ControlFlow::Continue(());
        if let Some(text) = text(message.content) {
            is_whole = message.content.is_some_and(is_readable);
            parts.text(role, &text);
            flow = tell(Block::Text(&text));
        }
        for block in list(message.content) {
            let (block, is_block_whole) = block_value(block);
            is_whole &= is_block_whole;
            parts.anthropic_block(role, &block);
            match (block["type"].as_str(), &block["id"], &block["tool_use_id"]) {
                (Some("tool_use"), Value::String(id), _) => calls.push(name(id)),
                (Some("tool_result"), _, Value::String(id)) => results.push(name(id)),
                _ => {}
            }
            if flow.is_continue() {
                flow = match block["text"].as_str() {
                    Some(text) if block["type"] == "text" => tell(Block::Text(text)),
                    _ => tell(Block::Other(&block)),
                };
            }
        }
        let log = &mut self.files[spot.file].log;
        log.parts += parts.parts.len() as u64;
        log.extend_run(message, spot.line, &mut self.messages);
        self.messages.contents.insert(spot.line, Content { parts: parts.parts, is_whole });
        self.forget_messages();
        let answer = text(message.id).filter(|_| role == Role::Assistant).map(|id| name(&id));
        self.add_node(record, spot, answer, calls.into(), results.into());
        flow
    }

    /// Adds a record to the tree.
    pub(super) fn add_node(
        &mut self,
        record: &Record<'_>,
        spot: &Spot,
        answer: Option<u64>,
        calls: Box<[u64]>,
        results: Box<[u64]>,
    ) {
        if self.kept != Kept::Figures
            && let Some(uuid) = text(record.uuid)
        {
            let parent = self.parent(record, spot);
            let (place, agent) = (spot.line, spot.agent.clone());
            self.tree.add(Node { uuid: name(&uuid), parent, answer, calls, results, place, agent });
        }
    }

    /// Returns the record before this one.
    fn parent(&self, record: &Record<'_>, spot: &Spot) -> Option<u64> {
        let own = text(record.parent_uuid).map(|it| name(&it));
        own.or(self.files[spot.file].log.forked_at)
    }

    /// Takes a request of the log.
    pub(super) fn request(
        &mut self,
        record: &Record<'_>,
        spot: &Spot,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        let model = request_log::model(record);
        self.tell_facts(record, model.as_deref(), spot, sink)?;
        let log = &mut self.files[spot.file].log;
        log.has_requests = true;
        let id = text(record.id).map(|id| name(&id));
        let source = match self.kept {
            Kept::Figures => WindowSource::None,
            _ => log.logged(record, id, &mut self.messages),
        };
        log.model = model.clone().or(log.model.take());
        let purpose = purpose(spot.agent.as_deref(), record.query_source);
        let key = self.key();
        self.add_request(
            Pending { id, model, purpose, ..Pending::new(key, spot, source) },
            spot.file,
            sink,
        )
    }

    /// Adds a request, after which the earlier ones of the file do not change.
    fn add_request(
        &mut self,
        request: Pending,
        file: usize,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        for earlier in &mut self.files[file].log.pending {
            earlier.is_handed_out &= earlier.is_settled;
            earlier.is_settled = true;
        }
        self.hand_out_pending(file, sink)?;
        self.files[file].log.push(request);
        ControlFlow::Continue(())
    }

    /// Takes a record of an answer, which is that of a known request or tells of a new one.
    fn answer(
        &mut self,
        record: &Record<'_>,
        message: &Message<'_>,
        spot: &Spot,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        let answer_id = text(message.id);
        let reference = text(record.request_ref).map(|id| name(&id));
        let model: Option<Arc<str>> = text(message.model).map(|model| (&*model).into());
        let log = &mut self.files[spot.file].log;
        let is_this = |it: &Pending| {
            let is_answer =
                it.answer_id.is_some() && it.answer_id.as_deref() == answer_id.as_deref();
            is_answer || (reference.is_some() && it.id == reference)
        };
        if !log.pending.iter().any(is_this) {
            let is_before = spot.at.is_some() && spot.at < log.first_prompt;
            // Requests of forked sub-agents have an id and are not logged, and a record of the log can be unreadable.
            let is_of_other = reference.is_some()
                && !log.has_requests
                && spot.agent.is_none()
                && self.report.broken + self.report.too_large == 0;
            if record.forked_from.is_some() || is_before || is_of_other {
                log.has_copies = true;
                return ControlFlow::Continue(());
            }
            if answer_id.as_deref().is_some_and(|id| !self.answers.is_new(name(id))) {
                return ControlFlow::Continue(());
            }
            log.model = model.clone().or(log.model.take());
            for failed in &mut log.pending {
                failed.model = failed.model.take().or_else(|| model.clone());
            }
            let last = self.parent(record, spot);
            let source = WindowSource::Tree { last, length: self.tree.len() };
            let purpose = purpose(spot.agent.as_deref(), None);
            let key = self.key();
            let request =
                Pending { model: model.clone(), purpose, ..Pending::new(key, spot, source) };
            self.add_request(request, spot.file, sink)?;
        } else if let Some(id) = answer_id.as_deref() {
            self.answers.is_new(name(id));
        }
        let starts_agents = message.content.is_some_and(|content| {
            AGENT_CALLS
                .iter()
                .any(|call| memmem::find(content.get().as_bytes(), call.as_bytes()).is_some())
        });
        let log = &mut self.files[spot.file].log;
        let found = log.pending.iter().rposition(is_this);
        // A request that was just added has no answer yet.
        let Some(request) = log.pending.get_mut(found.unwrap_or(log.pending.len().wrapping_sub(1)))
        else {
            return ControlFlow::Continue(());
        };
        let is_complete = text(message.stop_reason).is_some();
        // Whether the totals count an interrupted answer is not known.
        if starts_agents || !is_complete {
            log.totals.doubt();
        }
        if let Some(counted) = usage::counted(message.usage) {
            let before = request.counted.take().unwrap_or_default().usage;
            let model = request.model.as_deref().or(model.as_deref()).unwrap_or_default();
            log.totals.explain(model, counted.usage, before);
            request.counted = Some(counted);
        }
        request.answer_id = answer_id.map(Cow::into_owned);
        request.model = request.model.take().or(model);
        request.status = Some(200);
        request.is_settled |= is_complete;
        request.is_handed_out = false;
        ControlFlow::Continue(())
    }

    /// Notes that a request failed. Without a log, this is all that is known of it.
    pub(super) fn failure(
        &mut self,
        record: &Record<'_>,
        status: Option<u16>,
        spot: &Spot,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        let log = &mut self.files[spot.file].log;
        if log.has_requests {
            log.fail(status);
            return ControlFlow::Continue(());
        }
        if status.is_none() || spot.at < log.first_prompt || record.forked_from.is_some() {
            return ControlFlow::Continue(());
        }
        let last = self.parent(record, spot);
        let source = WindowSource::Tree { last, length: self.tree.len() };
        let purpose = purpose(spot.agent.as_deref(), None);
        let key = self.key();
        let request =
            Pending { status, purpose, is_settled: true, ..Pending::new(key, spot, source) };
        self.add_request(request, spot.file, sink)
    }
}

/// A block of a message.
enum Block<'b> {
    Text(&'b str),
    Other(&'b Value),
}

fn is_readable(content: &RawValue) -> bool {
    serde_json::from_str::<String>(content.get()).is_ok()
}
