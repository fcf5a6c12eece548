//! Prepares a turn: assembles its prompt from the stored conversation.

use std::io;
use std::path::{Path, PathBuf};

use convoke_agent::adapter::{command_is_text, unseen_images};
use convoke_core::{AssemblerOutput, Diagnostic};
use convoke_files::beneath::open_real;
use convoke_protocol::content::Content;
use convoke_protocol::id::{AttemptRef, EventNumber, MemberName, ThreadId};
use convoke_protocol::image::Image;
use convoke_protocol::memory::MemoryUse;
use convoke_protocol::turn::{Attempt, Turn, TurnState};
use convoke_protocol::verdict::{Failure, FailureReason};
use convoke_team::ChangesInContext;

use super::team_agents::{MemberAgent, TeamAgents};
use super::{Coordinator, CoordinatorError};
use crate::file_changes::{TeamWorkspaces, TeammateChanges, WorkspacesRequest};
use crate::memory::{self, Circumstances, PromptMemory, Recall};
use crate::prompt::PromptRecord;
use crate::store::Store;

/// A turn with its prompt.
pub(super) struct PreparedTurn {
    pub(super) turn: Turn,
    pub(super) attempt: Attempt,
    pub(super) member_agent: MemberAgent,
    pub(super) output: AssemblerOutput<'static>,
    pub(super) images: Vec<Image>,
    /// What the turn continues; `None` if the member does not remember.
    pub(super) recall: Option<Recall>,
    /// How the attempt uses the memory of its member.
    pub(super) memory: Option<Box<MemoryUse>>,
    pub(super) contents: Vec<Content>,
    /// The directory whose changes are recorded.
    pub(super) recorded: PathBuf,
    /// The diagnostics from preparing the directory.
    pub(super) diagnostics: Vec<Diagnostic>,
    /// The number of context messages before the budget is applied.
    pub(super) context: usize,
}

/// A turn whose prompt could not be assembled.
pub(super) struct UnpreparedTurn {
    pub(super) turn: Turn,
    pub(super) failure: Failure,
}

impl<S: Store> Coordinator<S> {
    /// Assembles the prompt of a turn; `beside` are the members whose turns run at the same time. O(window).
    pub(super) async fn prepare(
        &mut self,
        mut turn: Turn,
        beside: &[MemberName],
    ) -> Result<Result<PreparedTurn, UnpreparedTurn>, CoordinatorError> {
        let team = self.team_agents.team();
        let found =
            team.member(turn.member.as_str()).zip(self.team_agents.member_agent(&turn.member));
        let Some((member, member_agent)) = found else {
            let why = format!("no agent for {}", turn.member);
            return Ok(Err(UnpreparedTurn {
                turn,
                failure: Failure::new(FailureReason::Start, why),
            }));
        };
        let mut input = PromptRecord::new(
            team,
            member,
            member_agent.instruction_file.clone(),
            self.conversation.task(),
            turn.answers,
            self.conversation.last_message(),
        );
        let mut member_agent = member_agent.clone();
        let attempt =
            AttemptRef { session: self.session, turn: turn.id, attempt: turn.attempts + 1 };
        if let Some(failure) = moved(&member_agent.cwd).await {
            return Ok(Err(UnpreparedTurn { turn, failure }));
        }
        let workspaces = match workspaces(&self.team_agents, attempt, &turn.member).await {
            Ok(workspaces) => workspaces,
            Err(why) => {
                let failure = Failure::new(FailureReason::Start, why);
                return Ok(Err(UnpreparedTurn { turn, failure }));
            }
        };
        let recorded = match (&workspaces.root, &member_agent.workspace) {
            (Some(root), Some(own)) => {
                // In a directory of Convoke, which no agent can change.
                let root = root.canonicalize().unwrap_or_else(|_| root.clone());
                member_agent.cwd = root.join(&own.below);
                member_agent.workspace_root = Some(root.clone());
                root
            }
            _ => member_agent.cwd.clone(),
        };
        let mut diagnostics = workspaces.diagnostics;
        let beside = beside.iter().filter(|name| **name != turn.member);
        let beside = beside.filter_map(|name| Some((name, self.team_agents.member_agent(name)?)));
        diagnostics.extend(member_agent.check_trust(beside).await);
        member_agent.readable = workspaces.readable;
        input.workspaces = workspaces.text;
        let asked = team.changes;
        if let Some(recorder) = self.team_agents.recorder.clone()
            && asked != ChangesInContext::None
        {
            let (session, member) = (self.session, turn.member.clone());
            let request = TeammateChanges { session, member, form: asked };
            match recorder.teammate_changes(request).await {
                Ok(text) => input.changes = text,
                Err(diagnostic) => diagnostics.push(diagnostic),
            }
        }
        let recall = self.recall(&mut input, &turn, &member_agent);
        if let Some(reason) = recall.as_ref().and_then(|recall| recall.lost.as_deref()) {
            diagnostics.push(memory::lost(turn.member.as_str(), reason));
        }
        let material = input.read(&self.store, self.session).await?;
        input.context = material.earlier.iter().map(|message| message.number).collect();
        let output = match input.assemble(&material) {
            Ok(output) => output,
            Err(error) => {
                let failure = Failure::new(FailureReason::ContextFull, error.to_string());
                return Ok(Err(UnpreparedTurn { turn, failure }));
            }
        };
        diagnostics.extend(command_is_text(&input.agent_type, &material.current.text));
        let (images, unseen) = PromptRecord::images(&material);
        diagnostics.extend(unseen_images(&unseen, "the agent gets the newest images only"));
        let continues = recall.as_ref().and_then(|recall| recall.continues.clone());
        let memory = input.memory_use(&self.store, self.session, continues).await?.map(Box::new);
        turn.state = TurnState::Running;
        turn.attempts += 1;
        let prompt = Content::new(&*output.prompt);
        let system = output.system_flag.as_deref().map(Content::new);
        let assembled_from = Content::new(json(&input)?);
        let ledger = Content::new(json(&output.ledger)?);
        let attempt = Attempt {
            turn: turn.id,
            number: turn.attempts,
            // Known when it is stored.
            event: EventNumber::default(),
            began_at: self.team_agents.now(),
            engine: convoke_core::VERSION.to_owned(),
            prompt: prompt.reference(),
            system: system.as_ref().map(Content::reference),
            input: assembled_from.reference(),
            ledger: ledger.reference(),
            diagnostics: output.diagnostics.clone(),
            ended: None,
        };
        let contents = [prompt, assembled_from, ledger].into_iter().chain(system).collect();
        let context = input.context.len();
        Ok(Ok(PreparedTurn {
            turn,
            attempt,
            member_agent,
            output,
            images,
            recall,
            memory,
            contents,
            recorded,
            diagnostics,
            context,
        }))
    }

    /// Decides what the turn of a member that remembers continues, and adds it to the input of its prompt.
    fn recall(
        &self,
        input: &mut PromptRecord,
        turn: &Turn,
        member_agent: &MemberAgent,
    ) -> Option<Recall> {
        let settings = self.team_agents.team().member(turn.member.as_str())?.agent()?;
        if !settings.remembers() {
            return None;
        }
        let thread = ThreadId::of_member(self.session, turn.member.as_str());
        let circumstances = Circumstances {
            session: self.session,
            continuity: member_agent.agent.continuity(),
            holds: &|handle| member_agent.agent.holds(&thread, handle),
            cwd: &member_agent.cwd,
            model: member_agent.model.as_deref(),
            texts: input.texts(),
            limit: settings.memory_limit,
        };
        let recall = Recall::new(self.conversation.memory(&turn.member), &circumstances);
        let waiting = self.conversation.queue.waiting().iter();
        let later = waiting.filter(|it| it.member == turn.member && it.id != turn.id);
        let later = later.map(|it| it.answers).filter(|answers| *answers != turn.answers);
        input.remember(PromptMemory { since: recall.since.clone(), later: later.collect() });
        Some(recall)
    }
}

/// Returns the failure of a turn in whose working directory a link was put since the session began: nothing is read,
/// recorded or started there. A directory that does not exist fails where it is used.
async fn moved(cwd: &Path) -> Option<Failure> {
    let opened = {
        let cwd = cwd.to_owned();
        tokio::task::spawn_blocking(move || open_real(&cwd).map(drop)).await
    };
    let why = match opened {
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotADirectory => {
            "is not the directory that it was: it is a file, or a link is on its path".to_owned()
        }
        Ok(_) => return None,
        Err(error) => format!("cannot be checked: {error}"),
    };
    let message = format!("the working directory `{}` {why}", cwd.display());
    Some(Failure::new(FailureReason::Start, message))
}

/// Prepares the workspaces of a team before a turn.
async fn workspaces(
    team_agents: &TeamAgents,
    attempt: AttemptRef,
    member: &MemberName,
) -> Result<TeamWorkspaces, String> {
    let recorder = team_agents.recorder.clone().filter(|_| team_agents.has_workspaces());
    let Some(recorder) = recorder else { return Ok(TeamWorkspaces::default()) };
    let own = team_agents.member_agent(member).and_then(|agent| agent.workspace.clone());
    recorder.workspaces(WorkspacesRequest { attempt, member: member.clone(), own }).await
}

fn json(value: &impl serde::Serialize) -> Result<String, CoordinatorError> {
    serde_json::to_string(value)
        .map_err(|error| crate::store::StoreError::Database(Box::new(error)).into())
}
