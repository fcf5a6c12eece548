//! An agent whose program is pointed to a relay, one for each turn.

use std::path::PathBuf;
use std::sync::Arc;

use convoke_agent::adapter::{Host, agent};
use convoke_agent::config::Definition;
use convoke_agent::event::EventKind;
use convoke_agent::process::PrivateDir;
use convoke_agent::relayed::{self, CodexSignIn, ModelEndpoint, Pointed, Started};
use convoke_agent::turn::TurnSide;
use convoke_agent::verdict::{Failure, Reason};
use convoke_agent::{Agent, AgentTurn, TurnInput, TurnResult, Verdict};
use convoke_relay::{Relay, RelayOptions, Upstream};
use convoke_wire::Exchange;

use super::Recording;
use super::ledger::HandedOver;
use super::residency;
use super::turn_record::TurnRecord;
use crate::asking::ask;

/// An agent whose requests are recorded on their way to the endpoint that it would use.
#[derive(Clone)]
pub struct RelayingAgent {
    /// The agent's definition.
    pub definition: Definition,
    /// The machine as its program sees it.
    pub host: Host,
    /// The program, by its path.
    pub program: PathBuf,
    /// What is recorded, and where.
    pub recording: Recording,
}

impl Agent for RelayingAgent {
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
    Failure::new(Reason::Start, format!("its requests cannot be recorded: {reason}"))
}

impl RelayingAgent {
    async fn take_turn(
        mut self,
        turn_input: TurnInput,
        side: &TurnSide,
    ) -> Result<TurnResult, Failure> {
        let private = PrivateDir::create(&self.host.temp_root).map_err(failure)?;
        let (relay, mut exchanges) = self.relayed(&turn_input, &private).await?;
        let recording = Arc::new(self.recording);
        let handed_over = HandedOver::new(&turn_input, recording.vendor);
        let mut record = TurnRecord::new(recording, handed_over, &turn_input);
        let mut turn = agent(self.definition, self.host).start(turn_input);
        let canceller = turn.canceller();
        let mut is_cancelled = false;
        loop {
            tokio::select! {
                biased;
                Some(exchange) = exchanges.recv() => record.exchanged(exchange, side).await,
                event = turn.next() => match event {
                    Some(event) if matches!(event.kind, EventKind::Finished { .. }) => {}
                    Some(event) => side.send(event).await,
                    None => break,
                },
                () = side.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    canceller.cancel();
                }
            }
        }
        let mut result = turn.result().await;
        let failed = relay.failure();
        relay.shutdown().await;
        while let Ok(exchange) = exchanges.try_recv() {
            record.exchanged(exchange, side).await;
        }
        result.diagnostics.extend(record.finish(side).await);
        if let (Verdict::Failed(failure), Some(reason)) = (&mut result.verdict, failed) {
            failure.message = format!("{} (the relay: {reason})", failure.message);
        }
        Ok(result)
    }

    /// Starts a relay and points the program to it.
    async fn relayed(
        &mut self,
        turn_input: &TurnInput,
        private: &PrivateDir,
    ) -> Result<(Relay, tokio::sync::mpsc::UnboundedReceiver<Exchange>), Failure> {
        let agent = self.clone();
        let input = (turn_input.cwd.clone(), turn_input.trust);
        let found = tokio::task::spawn_blocking(move || agent.endpoint(&input.0, input.1)).await;
        let endpoint = found.map_err(failure)?.map_err(failure)?;
        let upstream = Upstream::parse(&endpoint.base_url)
            .map_err(|error| failure(format!("{error} ({})", endpoint.base_url)))?;
        let env = self.environment();
        let options = RelayOptions {
            env: env.clone(),
            own_user_agents: endpoint.own_user_agents(),
            ..RelayOptions::new(upstream)
        };
        let (relay, exchanges) = Relay::start(options).await.map_err(failure)?;
        let started = Started {
            vendor: self.recording.vendor,
            arguments: &self.definition.args,
            env: &env,
            cwd: &turn_input.cwd,
            trust: turn_input.trust,
        };
        let pointed = endpoint.point(&started, &relay.base_url(), private.path());
        let Pointed { arguments, env } = pointed.map_err(failure)?;
        self.definition.args = arguments;
        // Its sandbox leaves the way to the relay open.
        self.definition.sandbox.ports.push(relay.port());
        for (name, value) in env {
            let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) else { continue };
            self.definition.env.insert(name, value);
        }
        Ok((relay, exchanges))
    }

    fn endpoint(
        &self,
        cwd: &std::path::Path,
        trust: convoke_agent::turn_input::Trust,
    ) -> Result<ModelEndpoint, String> {
        let env = self.environment();
        let started = Started {
            vendor: self.recording.vendor,
            arguments: &self.definition.args,
            env: &env,
            cwd,
            trust,
        };
        let sign_in = || {
            let answer = ask(&self.program, &["login", "status"], env.iter().cloned(), cwd)?;
            CodexSignIn::parse(&answer.said)
        };
        let endpoint = relayed::endpoint(&started, sign_in).map_err(|error| error.to_string())?;
        if endpoint.may_be_bound {
            residency::ask(&self.program, &env, cwd)?;
        }
        Ok(endpoint)
    }

    fn environment(&self) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
        let own = self.definition.env.iter().map(|(name, value)| (name.into(), value.into()));
        self.host.env.iter().cloned().chain(own).collect()
    }
}
