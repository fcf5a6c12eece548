//! The registry of assemblers by type of agent.

use std::collections::HashMap;
use std::fmt;

use super::{
    AssemblerOutput, ClaudeAssembler, CodexAssembler, ContextAssembler, GeminiAssembler,
    PlainTextAssembler, SystemPlace,
};
use crate::agent_type::AgentType;
use crate::budget::BudgetTooSmall;
use crate::diagnostic::Diagnostic;
use crate::diagnostics;
use crate::input::AssemblerInput;

/// The assemblers by type of agent. A type without an assembler gets plain text and a diagnostic.
pub struct Assemblers {
    by_type: HashMap<AgentType, Box<dyn ContextAssembler>>,
}

impl Default for Assemblers {
    fn default() -> Self {
        let mut assemblers = Self { by_type: HashMap::new() };
        assemblers.register(Box::new(ClaudeAssembler));
        assemblers.register(Box::new(CodexAssembler));
        assemblers.register(Box::new(GeminiAssembler));
        assemblers.register(Box::new(PlainTextAssembler));
        assemblers
    }
}

impl Assemblers {
    /// Adds an assembler, replacing any that is registered for the same type of agent.
    pub fn register(&mut self, assembler: Box<dyn ContextAssembler>) {
        self.by_type.insert(assembler.agent_type(), assembler);
    }

    /// Returns where the system text of a type of agent goes.
    pub fn system_place(&self, agent_type: &str) -> SystemPlace {
        let assembler = self.by_type.get(&AgentType::normalize(agent_type));
        assembler.map_or(SystemPlace::Inline, |assembler| assembler.system_place())
    }

    /// Assembles a prompt for a type of agent.
    pub fn assemble<'a>(
        &self,
        agent_type: &str,
        input: &'a AssemblerInput<'a>,
    ) -> Result<AssemblerOutput<'a>, BudgetTooSmall> {
        let normalized = AgentType::normalize(agent_type);
        if let Some(assembler) = self.by_type.get(&normalized) {
            return assembler.assemble(input);
        }
        let message = format!(
            "[ContextManager] Unknown agentType \"{agent_type}\" (normalized: \"{normalized}\"), \
             using PlainTextAssembler"
        );
        tracing::warn!("{message}");
        let mut output = PlainTextAssembler.assemble(input)?;
        output.diagnostics.insert(0, Diagnostic::new(diagnostics::AGENT_UNKNOWN, message));
        Ok(output)
    }
}

impl fmt::Debug for Assemblers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_type.keys()).finish()
    }
}
