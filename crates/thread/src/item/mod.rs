//! The items of a thread, as the Responses API knows them.
//!
//! Keys are written in one fixed order, because prompt caches and captures compare bytes. An item's
//! `id` is kept in memory and written only where a server stores responses ([`WithId`]).

mod read;
mod write;

pub use write::WithId;

/// One item of a thread.
#[derive(Debug, Clone, PartialEq)]
pub enum ResponseItem {
    /// Something that a user, a developer or the model said.
    Message(Message),
    /// What the model thought.
    Reasoning(Reasoning),
    /// A call of the server's own shell tool.
    LocalShellCall(LocalShellCall),
    /// A call of a tool that takes JSON.
    FunctionCall(FunctionCall),
    /// What a function or the local shell returned.
    FunctionCallOutput(FunctionCallOutput),
    /// A call of a tool that takes free text.
    CustomToolCall(CustomToolCall),
    /// What such a tool returned.
    CustomToolCallOutput(CustomToolCallOutput),
    /// A web search that the server did.
    WebSearchCall(WebSearchCall),
    /// A snapshot of the working tree; never sent.
    GhostSnapshot(serde_json::Value),
    /// A history that the server compacted.
    Compaction(Compaction),
    /// An item of a kind that is not known, by its name; never recorded.
    Other(String),
}

/// Something that was said.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The server's id.
    pub id: Option<String>,
    /// `user`, `developer`, `assistant` or `system`.
    pub role: String,
    /// What was said, part by part.
    pub content: Vec<ContentItem>,
    /// Whether the model ended its turn with it.
    pub end_turn: Option<bool>,
    /// Which part of the answer it is.
    pub phase: Option<String>,
}

/// A part of a message, or of a tool's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentItem {
    /// Text that the model reads.
    InputText(String),
    /// An image that the model sees, by its URL.
    InputImage(String),
    /// Text that the model wrote.
    OutputText(String),
}

/// What the model thought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reasoning {
    /// The server's id; may be empty.
    pub id: String,
    /// The summary, part by part.
    pub summary: Vec<String>,
    /// The thoughts themselves, where the server shows them.
    pub content: Option<Vec<ReasoningContent>>,
    /// The thoughts as only the server can read them.
    pub encrypted_content: Option<String>,
}

/// A part of what the model thought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReasoningContent {
    /// A thought.
    ReasoningText(String),
    /// Plain text.
    Text(String),
}

/// A call of the server's own shell tool.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalShellCall {
    /// The server's id.
    pub id: Option<String>,
    /// The id that its output answers.
    pub call_id: Option<String>,
    /// How far it got.
    pub status: String,
    /// What to run.
    pub action: LocalShellAction,
}

/// What the local shell is to run.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalShellAction {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// How long it may take.
    pub timeout_ms: Option<u64>,
    /// Where to run it.
    pub working_directory: Option<String>,
    /// The environment.
    pub env: Option<serde_json::Map<String, serde_json::Value>>,
    /// Who runs it.
    pub user: Option<String>,
}

/// A call of a tool that takes JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionCall {
    /// The server's id.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// Its arguments, as the model wrote them.
    pub arguments: String,
    /// The id that its output answers.
    pub call_id: String,
}

/// What a function or the local shell returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionCallOutput {
    /// The call that it answers.
    pub call_id: String,
    /// What came back.
    pub output: FunctionOutput,
}

/// What came back from a function.
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
    /// How far it got.
    pub status: Option<String>,
    /// The id that its output answers.
    pub call_id: String,
    /// The tool.
    pub name: String,
    /// Its input.
    pub input: String,
}

/// What a tool that takes free text returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomToolCallOutput {
    /// The call that it answers.
    pub call_id: String,
    /// What came back.
    pub output: String,
}

/// A web search that the server did.
#[derive(Debug, Clone, PartialEq)]
pub struct WebSearchCall {
    /// The server's id.
    pub id: Option<String>,
    /// How far it got.
    pub status: Option<String>,
    /// What was searched.
    pub action: Option<serde_json::Value>,
}

/// A history that the server compacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compaction {
    /// The history as only the server can read it.
    pub encrypted_content: String,
}

impl ResponseItem {
    /// Creates a message of one text that the model reads.
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

    /// Returns the server's id, unless it has none or an empty one.
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

    /// Returns whether the caller must run a tool because of it.
    pub fn is_tool_call(&self) -> bool {
        matches!(self, Self::FunctionCall(_) | Self::CustomToolCall(_) | Self::LocalShellCall(_))
    }

    /// Returns the bytes of the texts and images that it carries, without names and punctuation.
    pub fn text_bytes(&self) -> u64 {
        fn parts(content: &[ContentItem]) -> usize {
            content.iter().map(|part| part.text().len()).sum()
        }
        let bytes = match self {
            Self::Message(it) => parts(&it.content),
            Self::Reasoning(it) => {
                let summary: usize = it.summary.iter().map(String::len).sum();
                let content = it.content.iter().filter(|_| it.shows_content()).flatten();
                let content: usize = content.map(|part| part.text().len()).sum();
                summary + content + it.encrypted_content.as_ref().map_or(0, String::len)
            }
            Self::LocalShellCall(it) => it.action.command.iter().map(String::len).sum(),
            Self::FunctionCall(it) => it.arguments.len(),
            Self::FunctionCallOutput(it) => match &it.output {
                FunctionOutput::Text(text) => text.len(),
                FunctionOutput::Parts(content) => parts(content),
            },
            Self::CustomToolCall(it) => it.input.len(),
            Self::CustomToolCallOutput(it) => it.output.len(),
            Self::Compaction(it) => it.encrypted_content.len(),
            Self::WebSearchCall(_) | Self::GhostSnapshot(_) | Self::Other(_) => 0,
        };
        bytes as u64
    }
}

impl Reasoning {
    /// Returns whether `content` is written. Codex leaves it out only when there is content and
    /// none of it is a thought.
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
    /// Returns the text.
    pub fn text(&self) -> &str {
        match self {
            Self::ReasoningText(text) | Self::Text(text) => text,
        }
    }
}

#[cfg(test)]
mod tests;
