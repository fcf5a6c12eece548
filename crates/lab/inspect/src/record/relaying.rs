//! An agent whose program is pointed to a relay, one for each turn.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use convoke_agent::adapter::{Host, agent, continuity};
use convoke_agent::config::Definition;
use convoke_agent::process::PrivateDir;
use convoke_agent::sandbox::Route;
use convoke_agent::turn::{Continuity, TurnSide};
use convoke_agent::turn_input::Permissions;
use convoke_agent::{Agent, AgentTurn, TurnInput, TurnResult};
use convoke_core::Diagnostic;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_relay::Relay;
use convoke_wire::Exchange;
use tokio::sync::mpsc::Receiver;

use super::ledger::HandedOver;
use super::relayed_program::{Program, Reach, Redirect, Relayed};
use super::turn_record::{Room, TurnRecord};
use super::{Recording, forward};
use crate::diagnostics;

/// An agent whose requests are recorded on their way to the endpoint that it would use.
#[derive(Clone)]
pub struct RelayingAgent {
    /// The agent's definition.
    pub definition: Definition,
    /// The machine as its program sees it.
    pub host: Host,
    /// The program, by its path.
    pub program: PathBuf,
    /// The recording and its store.
    pub recording: Recording,
}

impl Agent for RelayingAgent {
    fn continuity(&self) -> Continuity {
        continuity(&self.definition)
    }

    fn start(&self, turn_input: TurnInput) -> AgentTurn {
        let (turn, side) = AgentTurn::open(self.recording.redactor.clone());
        let agent = self.clone();
        tokio::spawn(async move {
            let result = agent.take_turn(turn_input, &side).await;
            side.finish(result.unwrap_or_else(TurnResult::failed)).await;
        });
        turn
    }
}

/// A turn that cannot be relayed does not start: nothing is sent unrecorded.
fn failure(reason: impl std::fmt::Display) -> Failure {
    Failure::new(FailureReason::Start, format!("its requests cannot be recorded: {reason}"))
}

impl RelayingAgent {
    async fn take_turn(
        mut self,
        turn_input: TurnInput,
        side: &TurnSide,
    ) -> Result<TurnResult, Failure> {
        let private = PrivateDir::create(&self.host.temp_root).map_err(failure)?;
        let (relay, mut exchanges) = self.relayed(&turn_input, &private).await?;
        self.recording.redactor = self.recording.redactor.and_key(relay.secret());
        let recording = Arc::new(self.recording);
        let handed_over = HandedOver::new(&turn_input, recording.program());
        let mut record = TurnRecord::new(recording, handed_over, turn_input.attempt, Room::Turn);
        let turn = agent(self.definition, self.host).start(turn_input);
        let mut forwarded = pin!(forward(turn, side, Some(relay.secrets())));
        let mut result = loop {
            tokio::select! {
                biased;
                Some(exchange) = exchanges.recv() => record.exchanged(exchange, side).await,
                result = &mut forwarded => break result,
            }
        };
        let failed = relay.failure();
        let refused = relay.refused_hosts();
        let rest = async {
            while let Some(exchange) = exchanges.recv().await {
                record.exchanged(exchange, side).await;
            }
        };
        tokio::join!(relay.shutdown(), rest);
        record.finish(&mut result, side).await;
        if !refused.is_empty() {
            let message = format!(
                "the program, or a command that it ran, was refused a connection to {}",
                refused.join(", ")
            );
            let diagnostic = Diagnostic::new(diagnostics::RELAY_HOST_REFUSED, message);
            side.warn(diagnostic.clone()).await;
            result.diagnostics.push(diagnostic);
        }
        match (&mut result.verdict, failed) {
            (Verdict::Failed(failure), Some(reason)) => {
                failure.message = format!("{} (the relay: {reason})", failure.message);
            }
            (Verdict::TimedOut, Some(reason)) => {
                let diagnostic = Diagnostic::new(diagnostics::RELAY_FAILED, reason);
                side.warn(diagnostic.clone()).await;
                result.diagnostics.push(diagnostic);
            }
            _ => {}
        }
        Ok(result)
    }

    /// Starts a relay and points the program to it.
    async fn relayed(
        &mut self,
        turn_input: &TurnInput,
        private: &PrivateDir,
    ) -> Result<(Relay, Receiver<Exchange>), Failure> {
        let asked = turn_input.permissions;
        let permissions = self.definition.permissions.map_or(asked, |widest| asked.min(widest));
        let program = Program {
            path: self.program.clone(),
            vendor: self.recording.vendor,
            is_adapter: self.definition.is_adapter(),
            arguments: self.definition.args.clone(),
            env: self.environment(),
            cwd: turn_input.cwd.clone(),
            trust: turn_input.trust,
            reach: if permissions < Permissions::EditAndNetwork {
                Reach::RelayOnly
            } else {
                Reach::Anywhere
            },
            redirect: Redirect::BySettings,
            guardian: self.host.guardian.clone(),
        };
        let relayed = program.relayed(private.path()).await.map_err(failure)?;
        let Relayed { relay, exchanges, pointed, .. } = relayed;
        self.definition.args = pointed.arguments;
        for (name, value) in pointed.env {
            let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) else { continue };
            self.definition.env.insert(name, value);
        }
        // Its sandbox leaves the way to the relay open and no other, and the settings that name it.
        self.host.sandbox.route = Route::Through { port: relay.port() };
        self.definition.sandbox.readable.push(private.path().to_owned());
        Ok((relay, exchanges))
    }

    fn environment(&self) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
        let own = self.definition.env.iter().map(|(name, value)| (name.into(), value.into()));
        self.host.env.iter().cloned().chain(own).collect()
    }
}
