//! A session as its agents were invoked.

use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;

/// A session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    /// The program that held it: `convoke`, `claude`.
    pub program: String,
    /// The version of the program.
    pub version: Option<String>,
    /// The id that the program gave it.
    pub id: String,
    pub name: Option<String>,
    pub directory: Option<String>,
    /// The first and the last moment.
    pub began: Option<Millis>,
    pub ended: Option<Millis>,
    pub invocations: Vec<Invocation>,
}

/// What an agent did about one message.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation {
    /// A name that no other invocation of the session has, the same each time the session is read.
    pub key: String,
    /// The name of the member, or of the program.
    pub agent: String,
    /// The provider of its models, as the table of prices names it.
    pub provider: Option<String>,
    pub model: Option<String>,
    pub began: Millis,
    pub ended: Millis,
    /// The message, if texts are wanted.
    pub input: Option<String>,
    pub steps: Vec<Step>,
    pub requests: Vec<ModelRequest>,
    /// The tokens of all requests, as the program counted them.
    pub usage: Option<Usage>,
    /// The cost in dollars.
    pub cost: Option<f64>,
    pub failed: Option<Failed>,
}

/// Something did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// One of few words, for grouping.
    pub kind: String,
    pub message: String,
}

/// One thing that an agent said or did.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub at: Millis,
    /// The sub-agent that it is of; `None` for the agent itself.
    pub sub_agent: Option<String>,
    pub kind: StepKind,
}

/// What was said or done. A text is `None` if it is not wanted.
#[derive(Debug, Clone, PartialEq)]
pub enum StepKind {
    Text(Option<String>),
    Thinking(Option<String>),
    Call(Call),
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub id: String,
    pub tool: String,
    /// The input as JSON, if texts are wanted.
    pub input: Option<String>,
    /// `None` if the tool did not return.
    pub result: Option<CallResult>,
}

/// What a tool returned.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult {
    pub at: Millis,
    pub ok: bool,
    pub output: Option<String>,
}

/// A request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// A name that no other request of the session has.
    pub key: String,
    pub sub_agent: Option<String>,
    pub purpose: RequestPurpose,
    pub began: Millis,
    pub ended: Millis,
    /// The model that was asked for.
    pub model: Option<String>,
    /// The model that answered.
    pub answered_by: Option<String>,
    pub usage: Option<Usage>,
    pub cost: Option<f64>,
    pub failed: Option<Failed>,
}

impl Invocation {
    /// Returns the names of its sub-agents, in the order in which they appear.
    pub fn sub_agents(&self) -> Vec<&str> {
        let of_steps = self.steps.iter().filter_map(|step| step.sub_agent.as_deref());
        let of_requests = self.requests.iter().filter_map(|request| request.sub_agent.as_deref());
        let mut names = Vec::new();
        for name in of_steps.chain(of_requests) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Adds what a tool returned to its last open call with this id.
    pub(crate) fn close_call(&mut self, id: &str, result: CallResult) {
        let mut calls = self.steps.iter_mut().rev().filter_map(|step| match &mut step.kind {
            StepKind::Call(call) => Some(call),
            _ => None,
        });
        if let Some(call) = calls.find(|call| call.id == id && call.result.is_none()) {
            call.result = Some(result);
        }
    }
}
