//! The items of a thread, as in the Responses API.
//!
//! Keys are written in a fixed order, because prompt caches and captures compare bytes. An item's `id` is kept
//! in memory, and written only if the server stores responses.

mod read;
mod write;

pub(crate) use write::Ids;

/// One item of a thread.
///
/// Exhaustive on purpose: redaction has to visit every text.
#[derive(Debug, Clone, PartialEq)]
pub enum ResponseItem {
    /// A message of a user, a developer or the model.
    Message(Message),
    /// Reasoning of the model.
    Reasoning(Reasoning),
    /// A call of the server's own shell tool.
    LocalShellCall(LocalShellCall),
    /// A call of a tool that takes JSON.
    FunctionCall(FunctionCall),
    /// The output of a function or the local shell.
    FunctionCallOutput(FunctionCallOutput),
    /// A call of a tool that takes free text.
    CustomToolCall(CustomToolCall),
    /// The output of a free-text tool.
    CustomToolCallOutput(CustomToolCallOutput),
    /// A web search by the server.
    WebSearchCall(WebSearchCall),
    /// A snapshot of the working tree; never sent.
    GhostSnapshot(serde_json::Value),
    /// A history that the server compacted.
    Compaction(Compaction),
    /// An item of an unknown kind, by name; never recorded.
    Other(String),
}

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The server's id.
    pub id: Option<String>,
    /// `user`, `developer`, `assistant` or `system`.
    pub role: String,
    /// The parts.
    pub content: Vec<ContentItem>,
    /// Whether the model ended its turn with this message.
    pub end_turn: Option<bool>,
    /// The phase of the response.
    pub phase: Option<String>,
}

/// A part of a message, or of a tool's output.
///
/// Exhaustive on purpose: redaction has to visit every text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentItem {
    /// Text that the model reads.
    InputText(String),
    /// An image that the model sees, by its URL.
    InputImage(String),
    /// Text that the model wrote.
    OutputText(String),
}

/// Reasoning of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reasoning {
    /// The server's id; may be empty.
    pub id: String,
    /// The summary, part by part.
    pub summary: Vec<String>,
    /// The reasoning itself, if the server returns it.
    pub content: Option<Vec<ReasoningContent>>,
    /// The encrypted reasoning, which only the server can read.
    pub encrypted_content: Option<String>,
}

/// A part of reasoning.
///
/// Exhaustive on purpose: redaction has to visit every text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReasoningContent {
    /// Reasoning.
    ReasoningText(String),
    /// Plain text.
    Text(String),
}

/// A call of the server's own shell tool.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalShellCall {
    /// The server's id.
    pub id: Option<String>,
    /// The id that the output refers to.
    pub call_id: Option<String>,
    pub status: String,
    /// The command.
    pub action: LocalShellAction,
}

/// A command of the local shell.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalShellAction {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The time limit.
    pub timeout_ms: Option<u64>,
    pub working_directory: Option<String>,
    /// The environment.
    pub env: Option<serde_json::Map<String, serde_json::Value>>,
    pub user: Option<String>,
}

/// A call of a tool that takes JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionCall {
    /// The server's id.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments, as the model wrote them.
    pub arguments: String,
    /// The id that the output refers to.
    pub call_id: String,
}

/// The output of a function or the local shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionCallOutput {
    pub call_id: String,
    pub output: FunctionOutput,
}

/// The output of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionOutput {
    /// Text.
    Text(String),
    /// Text and images.
    Parts(Vec<ContentItem>),
}

/// A call of a tool that takes free text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomToolCall {
    /// The server's id.
    pub id: Option<String>,
    pub status: Option<String>,
    /// The id that the output refers to.
    pub call_id: String,
    /// The tool.
    pub name: String,
    pub input: String,
}

/// The output of a free-text tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomToolCallOutput {
    pub call_id: String,
    pub output: String,
}

/// A web search by the server.
#[derive(Debug, Clone, PartialEq)]
pub struct WebSearchCall {
    /// The server's id.
    pub id: Option<String>,
    pub status: Option<String>,
    /// The search.
    pub action: Option<serde_json::Value>,
}

/// A history that the server compacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compaction {
    /// The encrypted history, which only the server can read.
    pub encrypted_content: String,
}

impl ResponseItem {
    /// Creates a message with one text for the model to read.
    pub fn text(role: &str, text: impl Into<String>) -> Self {
        Self::message(role, vec![ContentItem::InputText(text.into())])
    }

    /// Creates a message of a user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::text("user", text)
    }

    /// Creates a message of a developer.
    pub fn developer(text: impl Into<String>) -> Self {
        Self::text("developer", text)
    }

    /// Creates a message.
    pub fn message(role: &str, content: Vec<ContentItem>) -> Self {
        Self::Message(Message {
            id: None,
            role: role.to_owned(),
            content,
            end_turn: None,
            phase: None,
        })
    }

    /// Creates the output of a function call.
    pub fn function_output(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::FunctionCallOutput(FunctionCallOutput {
            call_id: call_id.into(),
            output: FunctionOutput::Text(text.into()),
        })
    }

    /// Returns the role of a message.
    pub fn role(&self) -> Option<&str> {
        match self {
            Self::Message(message) => Some(&message.role),
            _ => None,
        }
    }

    /// Returns the server's id, if it is not empty.
    pub fn id(&self) -> Option<&str> {
        let id = match self {
            Self::Message(it) => it.id.as_deref(),
            Self::Reasoning(it) => Some(&*it.id),
            Self::LocalShellCall(it) => it.id.as_deref(),
            Self::FunctionCall(it) => it.id.as_deref(),
            Self::CustomToolCall(it) => it.id.as_deref(),
            Self::WebSearchCall(it) => it.id.as_deref(),
            Self::FunctionCallOutput(_)
            | Self::CustomToolCallOutput(_)
            | Self::GhostSnapshot(_)
            | Self::Compaction(_)
            | Self::Other(_) => None,
        };
        id.filter(|id| !id.is_empty())
    }

    /// Returns whether the item is a call that the caller must run.
    pub fn is_tool_call(&self) -> bool {
        matches!(self, Self::FunctionCall(_) | Self::CustomToolCall(_) | Self::LocalShellCall(_))
    }

    /// Returns the id of a call, or of the call that an output belongs to.
    pub fn call_id(&self) -> Option<&str> {
        match self {
            Self::LocalShellCall(it) => it.call_id.as_deref(),
            Self::FunctionCall(it) => Some(&it.call_id),
            Self::FunctionCallOutput(it) => Some(&it.call_id),
            Self::CustomToolCall(it) => Some(&it.call_id),
            Self::CustomToolCallOutput(it) => Some(&it.call_id),
            _ => None,
        }
    }

    /// Returns the texts and images, without names and punctuation, in the order of writing.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let texts: Vec<&str> = match self {
            Self::Message(it) => it.content.iter().map(ContentItem::text).collect(),
            Self::Reasoning(it) => {
                let summary = it.summary.iter().map(String::as_str);
                let content = it.content.iter().filter(|_| it.shows_content()).flatten();
                let content = content.map(ReasoningContent::text);
                summary.chain(content).chain(it.encrypted_content.as_deref()).collect()
            }
            Self::LocalShellCall(it) => it.action.command.iter().map(String::as_str).collect(),
            Self::FunctionCall(it) => vec![&it.arguments],
            Self::FunctionCallOutput(it) => match &it.output {
                FunctionOutput::Text(text) => vec![text],
                FunctionOutput::Parts(content) => content.iter().map(ContentItem::text).collect(),
            },
            Self::CustomToolCall(it) => vec![&it.input],
            Self::CustomToolCallOutput(it) => vec![&it.output],
            Self::Compaction(it) => vec![&it.encrypted_content],
            Self::WebSearchCall(_) | Self::GhostSnapshot(_) | Self::Other(_) => Vec::new(),
        };
        texts.into_iter()
    }

    /// Returns the total size of the texts.
    pub fn text_bytes(&self) -> u64 {
        self.texts().map(|text| text.len() as u64).sum()
    }
}

impl Reasoning {
    /// Returns whether `content` is written. Codex omits it only if there is content, but no reasoning in it.
    pub fn shows_content(&self) -> bool {
        let thought = |part: &ReasoningContent| matches!(part, ReasoningContent::ReasoningText(_));
        let content = self.content.as_ref();
        content.is_none_or(|parts| parts.iter().any(thought))
    }
}

impl ContentItem {
    /// Returns the text, or the URL of an image.
    pub fn text(&self) -> &str {
        match self {
            Self::InputText(text) | Self::InputImage(text) | Self::OutputText(text) => text,
        }
    }
}

impl ReasoningContent {
    fn kind(&self) -> &'static str {
        match self {
            Self::ReasoningText(_) => "reasoning_text",
            Self::Text(_) => "text",
        }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        match self {
            Self::ReasoningText(text) | Self::Text(text) => text,
        }
    }
}

#[cfg(test)]
mod tests;
