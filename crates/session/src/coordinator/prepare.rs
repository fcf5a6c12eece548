//! Preparing a turn: from the stored conversation to what is sent, and from what came back to what is
//! stored.

use convoke_agent::TurnResult;
use convoke_agent::Verdict;
use convoke_agent::verdict::{Failure, Reason};
use convoke_core::{AssemblerOutput, Diagnostic};
use serde_json::Value;

use super::team_agents::MemberAgent;
use super::{Coordinator, CoordinatorError};
use crate::content::Content;
use crate::id::Millis;
use crate::prompt::PromptInput;
use crate::store::Store;
use crate::turn::{Attempt, Ended, Turn, TurnState};

/// A turn that is ready to be sent.
pub(super) struct PreparedTurn {
    pub(super) turn: Turn,
    pub(super) attempt: Attempt,
    pub(super) member_agent: MemberAgent,
    pub(super) output: AssemblerOutput<'static>,
    pub(super) contents: Vec<Content>,
    /// How many context messages there are to choose from.
    pub(super) context: usize,
}

/// A turn that cannot be sent, and why.
pub(super) struct Unprepared {
    pub(super) turn: Turn,
    pub(super) failure: Failure,
}

impl<S: Store> Coordinator<S> {
    /// Assembles what a turn is sent. Costs what the window holds.
    pub(super) async fn prepare(
        &mut self,
        mut turn: Turn,
    ) -> Result<Result<PreparedTurn, Unprepared>, CoordinatorError> {
        let team = self.team_agents.team();
        let seated =
            team.member(turn.member.as_str()).zip(self.team_agents.member_agent(&turn.member));
        let Some((member, member_agent)) = seated else {
            let why = format!("there is no agent for {}", turn.member);
            return Ok(Err(Unprepared { turn, failure: Failure::new(Reason::Start, why) }));
        };
        let mut input = PromptInput::new(
            team,
            member,
            member_agent.instruction_file.clone(),
            self.conversation.task(),
            turn.answers,
            self.conversation.last_message(),
        );
        let material = input.read(&self.store, self.session).await?;
        input.context = material.earlier.iter().map(|message| message.number).collect();
        let output = match input.assemble(&material) {
            Ok(output) => output,
            Err(error) => {
                let failure = Failure::new(Reason::ContextFull, error.to_string());
                return Ok(Err(Unprepared { turn, failure }));
            }
        };
        turn.state = TurnState::Running;
        turn.attempts += 1;
        let prompt = Content::new(&*output.prompt);
        let system = output.system_flag.as_deref().map(Content::new);
        let assembled_from = Content::new(json(&input)?);
        let ledger = Content::new(json(&output.ledger)?);
        let attempt = Attempt {
            turn: turn.id,
            number: turn.attempts,
            began_at: self.team_agents.now(),
            engine: convoke_core::VERSION.to_owned(),
            prompt: prompt.reference(),
            system: system.as_ref().map(Content::reference),
            input: assembled_from.reference(),
            ledger: ledger.reference(),
            diagnostics: as_json(&output.diagnostics),
            ended: None,
        };
        let contents = [prompt, assembled_from, ledger].into_iter().chain(system).collect();
        let context = input.context.len();
        Ok(Ok(PreparedTurn {
            turn,
            attempt,
            member_agent: member_agent.clone(),
            output,
            contents,
            context,
        }))
    }
}

/// Converts a result without secrets into its stored form; the texts go to `contents`.
pub(super) fn ended(
    at: Millis,
    outcome: TurnResult,
    events: &str,
    contents: &mut Vec<Content>,
) -> Ended {
    let mut keep = |text: &str| {
        (!text.is_empty()).then(|| {
            let content = Content::new(text);
            let reference = content.reference();
            contents.push(content);
            reference
        })
    };
    Ended {
        at,
        partial: if outcome.verdict == Verdict::Done { None } else { keep(&outcome.reply) },
        verdict: outcome.verdict,
        events: keep(events),
        usage: outcome.usage,
        cost_usd: outcome.cost_usd,
        model: outcome.model,
        resume: outcome.resume,
        diagnostics: as_json(&outcome.diagnostics),
    }
}

fn as_json(diagnostics: &[Diagnostic]) -> Value {
    // A diagnostic is strings and numbers: it cannot fail to be JSON.
    serde_json::to_value(diagnostics).unwrap_or_default()
}

fn json(value: &impl serde::Serialize) -> Result<String, CoordinatorError> {
    serde_json::to_string(value)
        .map_err(|error| crate::store::StoreError::Database(Box::new(error)).into())
}
