//! The items of a conversation: what the program sends to the model and what it gets back.

use std::borrow::Cow;

use convoke_protocol::window::{Part, Role};
use convoke_wire::normal::{Parts, named_tools};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::json::{Raw, list, object, text};
use super::person;

/// The largest JSON that is read into a tree.
const MAX_TREE: usize = 128 << 10;
/// A field of items that stays in the file.
const NOT_SENT: &str = "internal_chat_message_metadata_passthrough";

/// An item, as it stands in a line.
#[derive(Deserialize)]
pub(super) struct Item<'r> {
    #[serde(borrow, default, rename = "type")]
    kind: Raw<'r>,
    #[serde(borrow, default)]
    role: Raw<'r>,
    #[serde(borrow, default)]
    content: Raw<'r>,
    #[serde(borrow, default)]
    name: Raw<'r>,
    #[serde(borrow, default)]
    arguments: Raw<'r>,
    #[serde(borrow, default)]
    input: Raw<'r>,
    #[serde(borrow, default)]
    action: Raw<'r>,
    #[serde(borrow, default)]
    call_id: Raw<'r>,
    #[serde(borrow, default)]
    output: Raw<'r>,
    #[serde(borrow, default)]
    encrypted_content: Raw<'r>,
    #[serde(borrow, default)]
    summary: Raw<'r>,
    #[serde(borrow, default)]
    tools: Raw<'r>,
}

#[derive(Deserialize)]
struct Content<'r> {
    #[serde(borrow, default)]
    text: Raw<'r>,
    #[serde(borrow, default)]
    image_url: Raw<'r>,
    #[serde(borrow, default)]
    url: Raw<'r>,
    #[serde(borrow, default, rename = "content")]
    inner: Raw<'r>,
    #[serde(borrow, default)]
    success: Raw<'r>,
}

/// What an item is in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A message of a person.
    Person,
    /// A message of another agent.
    Agent,
    /// A message of the program: instructions, the environment.
    Context,
    /// The mark of an interruption, which is written after it.
    Aborted,
    /// The summary of a compaction.
    Summary,
    /// A text of the model.
    Text,
    Reasoning,
    /// A call of a tool.
    Call,
    /// The result of a tool.
    Output,
    /// The tools, as an item.
    Tools,
    /// Something of the program that is not sent.
    Hidden,
    /// Something of the model that has no result.
    OtherOfModel,
    Other,
}

impl Kind {
    /// Returns whether the model wrote it.
    pub(super) const fn is_of_model(self) -> bool {
        matches!(self, Self::Text | Self::Reasoning | Self::Call | Self::OtherOfModel)
    }
}

impl<'r> Item<'r> {
    /// Returns what the item is.
    pub(super) fn kind(&self) -> Kind {
        let kind = text(self.kind).unwrap_or_default();
        match &*kind {
            "message" | "" if self.role.is_some() => match self.message_role() {
                Role::Assistant => Kind::Text,
                Role::User => person::kind(self.texts().iter().map(|text| &**text)),
                Role::Developer
                    if self.texts().iter().any(|it| it.starts_with(person::ABORTED)) =>
                {
                    Kind::Aborted
                }
                _ => Kind::Context,
            },
            "agent_message" => Kind::Agent,
            "reasoning" => Kind::Reasoning,
            "function_call" | "custom_tool_call" | "local_shell_call" | "tool_search_call" => {
                Kind::Call
            }
            "function_call_output" | "custom_tool_call_output" | "tool_search_output" => {
                Kind::Output
            }
            "additional_tools" => Kind::Tools,
            "ghost_snapshot" => Kind::Hidden,
            "compaction" | "compaction_summary" | "context_compaction" => Kind::OtherOfModel,
            kind if kind.ends_with("_call") => Kind::OtherOfModel,
            _ => Kind::Other,
        }
    }

    fn message_role(&self) -> Role {
        match text(self.role).as_deref() {
            Some("assistant") => Role::Assistant,
            Some("system") => Role::System,
            Some("developer") => Role::Developer,
            _ => Role::User,
        }
    }

    /// Returns whether it is a message of the developer.
    pub(super) fn is_of_developer(&self) -> bool {
        self.message_role() == Role::Developer && self.tools.is_none()
    }

    /// Returns the id that joins a call and its result.
    pub(super) fn call_id(&self) -> Option<Cow<'r, str>> {
        text(self.call_id)
    }

    /// Returns the name of a called tool.
    pub(super) fn tool(&self) -> Cow<'r, str> {
        text(self.name).or_else(|| text(self.kind)).unwrap_or_default()
    }

    /// Returns the input of a call, as JSON.
    pub(super) fn input_json(&self) -> Cow<'r, str> {
        match (text(self.arguments), self.input.or(self.action)) {
            (Some(arguments), _) if arguments.is_empty() => "{}".into(),
            (Some(arguments), _) if is_json(&arguments) => arguments,
            (Some(arguments), _) => Value::from(arguments).to_string().into(),
            (None, Some(input)) => input.get().into(),
            (None, None) => "{}".into(),
        }
    }

    /// Returns the free text of a call.
    pub(super) fn input_text(&self) -> Option<Cow<'r, str>> {
        text(self.input)
    }

    /// Returns the texts of a message.
    pub(super) fn texts(&self) -> Vec<Cow<'r, str>> {
        texts(self.content)
    }

    /// Returns the tools of the item that holds them.
    pub(super) fn tool_names(&self) -> Vec<String> {
        let tools = list(self.tools).into_iter();
        // One at a time: all of them together may be large.
        let names = tools.flat_map(|tool| match tree(tool) {
            Some(tool) => named_tools(&Value::Array(vec![tool])),
            None => text(object::<Item<'_>>(Some(tool)).and_then(|it| it.name))
                .map(Cow::into_owned)
                .into_iter()
                .collect(),
        });
        names.collect()
    }

    /// Returns the summary of the reasoning.
    pub(super) fn reasoning(&self) -> String {
        let shown = list(self.summary).into_iter().filter_map(|it| content(it)?.text);
        let shown: Vec<_> = shown.filter_map(|it| text(Some(it))).collect();
        if shown.is_empty() { self.texts().join("\n") } else { shown.join("\n") }
    }

    /// Returns the text of a result and whether the tool succeeded, as far as the item tells.
    pub(super) fn result(&self) -> (String, bool) {
        let object = object::<Content<'_>>(self.output);
        let failed =
            object.as_ref().and_then(|it| it.success).is_some_and(|it| it.get() == "false");
        let output = object.map_or(self.output, |it| it.inner);
        let output = texts(output).concat();
        let ok = !failed && !has_failed(&output);
        (output, ok)
    }

    /// Adds the item in the normal form.
    pub(super) fn add_to(&self, parts: &mut Parts, whole: &RawValue) {
        match self.kind() {
            Kind::Person | Kind::Context | Kind::Aborted | Kind::Summary | Kind::Text => {
                self.add_content(self.message_role(), parts);
            }
            Kind::Agent => self.add_content(Role::User, parts),
            Kind::Reasoning => match text(self.encrypted_content) {
                Some(encrypted) => parts.thinking(&encrypted),
                None => parts.thinking(&self.reasoning()),
            },
            Kind::Call => self.add_call(parts, whole),
            Kind::Output if self.output.is_some() => {
                parts.result(&self.result().0);
                for part in list(self.output) {
                    let url = content(part).and_then(|it| text(it.image_url));
                    if let Some(url) = url {
                        parts.image_url(Role::Tool, &url);
                    }
                }
            }
            Kind::Tools | Kind::Hidden => {}
            Kind::OtherOfModel => add_unknown(Role::Assistant, whole, parts),
            Kind::Output | Kind::Other => add_unknown(Role::User, whole, parts),
        }
    }

    fn add_call(&self, parts: &mut Parts, whole: &RawValue) {
        let name = text(self.name);
        match (text(self.kind).as_deref(), self.input) {
            (Some("function_call"), _) => {
                let input = self.input_json();
                let input = tree_of(&input).map_or(input, |tree| tree.to_string().into());
                parts.push(
                    Role::Assistant,
                    Part::Call {
                        name: name.unwrap_or_default().into_owned(),
                        input: input.into_owned().into(),
                    },
                );
            }
            (Some("custom_tool_call"), Some(input)) => parts.push(
                Role::Assistant,
                Part::Call {
                    name: name.unwrap_or_default().into_owned(),
                    input: input.get().into(),
                },
            ),
            _ => add_unknown(Role::Assistant, whole, parts),
        }
    }

    fn add_content(&self, role: Role, parts: &mut Parts) {
        if let Some(text) = text(self.content) {
            parts.text(role, &text);
        }
        for part in list(self.content) {
            let read = content(part);
            let url = read.as_ref().and_then(|it| {
                text(it.image_url).or_else(|| text(object::<Content<'_>>(it.image_url)?.url))
            });
            match (read.and_then(|it| text(it.text)), url) {
                (Some(text), _) => parts.text(role, &text),
                (_, Some(url)) => parts.image_url(role, &url),
                _ => add_unknown(role, part, parts),
            }
        }
    }
}

fn content(part: &RawValue) -> Option<Content<'_>> {
    object(Some(part))
}

/// Returns the texts of a content: the text itself, or those of its parts.
fn texts(field: Raw<'_>) -> Vec<Cow<'_, str>> {
    let parts = list(field).into_iter().filter_map(|part| text(content(part)?.text));
    text(field).into_iter().chain(parts).collect()
}

fn add_unknown(role: Role, item: &RawValue, parts: &mut Parts) {
    match tree(item) {
        Some(mut item) => {
            if let Some(fields) = item.as_object_mut() {
                fields.shift_remove(NOT_SENT);
            }
            parts.unknown(role, &item);
        }
        None => parts.text(role, item.get()),
    }
}

fn tree(item: &RawValue) -> Option<Value> {
    tree_of(item.get())
}

fn tree_of(json: &str) -> Option<Value> {
    (json.len() <= MAX_TREE).then(|| serde_json::from_str(json).ok()).flatten()
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Returns whether the output of a command says that it failed.
fn has_failed(output: &str) -> bool {
    let head = output.lines().take(6);
    let code = head.filter_map(|line| {
        line.strip_prefix("Exit code: ").or_else(|| line.strip_prefix("Process exited with code "))
    });
    let old = || {
        let is_old = output.starts_with('{') && output.len() <= MAX_TREE;
        let code = is_old.then(|| serde_json::from_str::<Value>(output).ok()).flatten()?;
        code["metadata"]["exit_code"].as_i64()
    };
    match code.into_iter().next() {
        Some(code) => code.trim() != "0",
        None => person::is_abort_result(output) || old().is_some_and(|code| code != 0),
    }
}
