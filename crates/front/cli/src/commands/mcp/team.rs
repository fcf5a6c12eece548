//! The tools of a team, for the agent whose turn runs.

use convoke_agent::team_tools::{SECRET, SOCKET, TeamAnswer, socket};
use convoke_pipe::mcp::{Cancellation, Tool, ToolResult, Tools};
use convoke_session::team_tools::TeamTool;
use serde_json::{Map, Value};

/// Passes calls on to the conversation.
pub(super) struct TeamClient {
    socket: String,
    secret: String,
}

impl TeamClient {
    /// Returns the client of the turn that this process was started for.
    pub(super) fn of_process() -> Option<Self> {
        let socket = std::env::var(SOCKET).ok().filter(|address| !address.is_empty())?;
        Some(Self { socket, secret: std::env::var(SECRET).unwrap_or_default() })
    }
}

impl Tools for TeamClient {
    fn list(&self) -> Vec<Tool> {
        let tool = |tool: TeamTool| Tool {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            schema: tool.schema(),
            only_reads: tool.only_reads(),
        };
        TeamTool::ALL.map(tool).into()
    }

    fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        cancellation: &Cancellation,
    ) -> Option<ToolResult> {
        TeamTool::ALL.into_iter().find(|tool| tool.name() == name)?;
        let called = socket::PendingCall::send(&self.socket, &self.secret, name, arguments);
        let answer = called.and_then(|call| {
            let withdrawal = call.withdrawal()?;
            cancellation.on_cancel(move || withdrawal.withdraw());
            call.answer()
        });
        let TeamAnswer { text, is_error } = answer.unwrap_or_else(|error| {
            TeamAnswer::error(format!("cannot reach the conversation: {error}"))
        });
        Some(ToolResult { text, is_error })
    }

    fn instructions(&self) -> &'static str {
        "Tools to reach your teammates and the people of your team while you work. Your reply still ends your turn."
    }
}
