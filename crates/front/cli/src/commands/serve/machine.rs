//! This machine, for the page: its agents, recorded changes, `explain` and exports.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_changes::{Author, Changes, Direction, Record, Step, Workspace, direction, steps};
use convoke_explain::DirectoryReport;
use convoke_inspect::HostEnvironment;
use convoke_protocol::id::{MemberName, SessionId, TurnId};
use convoke_server::{
    CacheRow, ChangedFile, ExportForm, Host, HostFuture, MemberWorkspace, OpenedSession,
    OtherSessions, SessionChanges, TurnChanges, UndoReply,
};
use convoke_session::AnyStore;
use convoke_session::event_queue::Observer;
use convoke_session::file_changes::{UndoConsent, UndoRequest};

use super::composing::compose;
use super::other_sessions::Others;
use crate::commands::changes::shown_count;
use crate::commands::explain;
use crate::commands::sessions::{cache, transfer};
use crate::conversation::change_recorder::{self, changes_of};
use crate::conversation::project::find_team_file;
use crate::conversation::sessions::WorkingDirectory;
use crate::conversation::undo_text::{
    self, LISTED, Mood, describe, done, is_settled, not_done, nothing_done, participle,
};
use crate::conversation::{self, Conversation, ConversationOptions, Rehearse};

/// The machine of a page.
pub(in crate::commands) struct Machine {
    host_environment: Arc<HostEnvironment>,
    store: AnyStore,
    here: WorkingDirectory,
    team: Option<PathBuf>,
    rehearse: Option<Rehearse>,
    others: Arc<Others>,
}

impl Machine {
    pub(in crate::commands) fn new(
        host_environment: HostEnvironment,
        store: AnyStore,
        others: Arc<Others>,
    ) -> Self {
        let here = WorkingDirectory::find(&host_environment);
        let host_environment = Arc::new(host_environment);
        Self { host_environment, store, here, team: None, rehearse: None, others }
    }

    /// Sets the team file of new conversations, and how they are rehearsed.
    pub(super) fn starting(self, team: Option<PathBuf>, rehearse: Option<Rehearse>) -> Self {
        Self { team, rehearse, ..self }
    }
}

/// Returns an error as one line for a person.
fn one_line(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

/// Runs work that reads files on a blocking thread.
fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> HostFuture<T> {
    Box::pin(async move {
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => done.map_err(|error| one_line(&error)),
            Err(failed) => Err(failed.to_string()),
        }
    })
}

impl Host for Machine {
    fn open(
        &self,
        session: Option<SessionId>,
        observer: Box<dyn Observer>,
    ) -> HostFuture<OpenedSession> {
        let host_environment = Arc::clone(&self.host_environment);
        let is_new = session.is_none();
        let options = ConversationOptions {
            // A stored session keeps its own team file.
            team: self.team.clone().filter(|_| is_new),
            session: session.map(|session| session.to_string()),
            rehearse: self.rehearse.filter(|_| is_new),
            script: None,
            has_round: false,
            record: None,
            alone: None,
            composed: None,
        };
        Box::pin(async move {
            let opened = conversation::open(&options, &host_environment, observer).await;
            let conversation = opened.map_err(|error| one_line(&error))?;
            let compose = compose(&conversation, &host_environment);
            let Conversation { coordinator, rehearsal_servers, diagnostics, .. } = conversation;
            let keep = Box::new(rehearsal_servers);
            Ok(OpenedSession { coordinator, diagnostics, compose, keep })
        })
    }

    fn changes(&self, session: SessionId) -> HostFuture<SessionChanges> {
        let changes = changes_of(&self.host_environment);
        blocking(move || {
            let session = session.to_string();
            let mut found = SessionChanges::default();
            let records = changes.records(&session)?;
            let steps = steps(&records);
            for record in &records {
                let step = steps.iter().find(|step| step.made.id == record.id);
                found.turns.push(turn_changes(&changes, &records, record, step)?);
            }
            for workspace in changes.workspaces(&session)? {
                found.workspaces.push(member_workspace(&changes, &session, workspace)?);
            }
            Ok(found)
        })
    }

    fn undo(&self, request: UndoRequest) -> HostFuture<UndoReply> {
        let changes = changes_of(&self.host_environment);
        blocking(move || {
            let completed = changes.take_completed(&request.session.to_string())?;
            if !completed.is_empty() {
                let reports = completed.iter().map(|it| undo_text::completed(it, None));
                anyhow::bail!("{}", reports.collect::<Vec<_>>().join("\n"));
            }
            let plan = change_recorder::plan(&changes, &request)?;
            let turn = plan.applied.is_none().then_some(TurnId(plan.turn.turn));
            let is_preview = request.consent == UndoConsent::Preview;
            let is_refused = !plan.conflicts.is_empty() || plan.is_busy;
            if is_refused || (!is_preview && plan.is_refused_as_shared()) {
                let preview = describe(&changes, &plan, Mood::Preview, LISTED)?;
                anyhow::bail!("{preview}nothing was {}", participle(&plan));
            }
            if is_preview {
                let mut text = describe(&changes, &plan, Mood::Preview, LISTED)?;
                if plan.changes.is_empty() {
                    text += &nothing_done(&plan);
                }
                return Ok(UndoReply { text, turn });
            }
            if plan.changes.is_empty() && !is_settled(&plan) {
                return Ok(UndoReply { text: nothing_done(&plan), turn });
            }
            changes
                .undo(&plan)
                .map_err(|error| anyhow::anyhow!(not_done(participle(&plan), &error)))?;
            Ok(UndoReply { text: done(&plan), turn })
        })
    }

    fn explain(&self, directory: Option<PathBuf>) -> HostFuture<DirectoryReport> {
        let HostEnvironment { cwd, home, .. } = &*self.host_environment;
        let directory = directory.map_or_else(
            || cwd.clone(),
            |written| {
                written.strip_prefix("~").map_or_else(|_| cwd.join(&written), |it| home.join(it))
            },
        );
        blocking(move || explain::report(directory, Vec::new()))
    }

    fn cache(&self, session: SessionId) -> HostFuture<Vec<CacheRow>> {
        let store = self.store.clone();
        Box::pin(async move {
            cache::page_rows(&store, session).await.map_err(|error| one_line(&error))
        })
    }

    fn export(&self, session: SessionId, form: ExportForm) -> HostFuture<Vec<u8>> {
        let store = self.store.clone();
        Box::pin(async move {
            let mut bytes = Vec::new();
            let written = transfer::write(form, &store, session, &mut bytes).await;
            written.map(|()| bytes).map_err(|error| one_line(&error))
        })
    }

    fn shown_directory(&self, directory: &str) -> String {
        self.here.named(Path::new(directory))
    }

    fn no_new_session(&self) -> Option<String> {
        let can = self.team.is_some()
            || matches!(self.rehearse, Some(Rehearse::StandIn | Rehearse::Cli))
            || find_team_file(&self.host_environment).is_some();
        (!can).then(|| "no convoke.toml in this directory; `convoke init` writes one".to_owned())
    }

    fn other_sessions(&self) -> Arc<dyn OtherSessions> {
        Arc::clone(&self.others) as Arc<dyn OtherSessions>
    }
}

fn member_workspace(
    changes: &Changes,
    session: &str,
    workspace: Workspace,
) -> anyhow::Result<MemberWorkspace> {
    let unmerged = shown_count(changes, session, &workspace)?;
    let Workspace { member, directory, project, branch, .. } = workspace;
    Ok(MemberWorkspace { member, directory, project, branch, unmerged })
}

fn turn_changes(
    changes: &Changes,
    records: &[Record],
    record: &Record,
    step: Option<&Step<'_>>,
) -> anyhow::Result<TurnChanges> {
    let diffs = changes.diffs(&record.directory, &record.changes)?;
    let files = diffs.into_iter().map(|diff| ChangedFile {
        path: diff.path.to_lossy().into_owned(),
        status: match diff.from {
            Some(from) => format!("{} from {from}", diff.status.as_str()),
            None => diff.status.as_str().to_owned(),
        },
        added: diff.lines.map(|lines| lines.added),
        removed: diff.lines.map(|lines| lines.removed),
        bytes: diff.bytes,
        diff: diff.text,
    });
    let is_agent = record.by == Author::Agent;
    Ok(TurnChanges {
        turn: record.turn.turn,
        attempt: record.turn.attempt,
        member: is_agent.then(|| MemberName::new(&*record.turn.member)),
        by: if is_agent { "agent" } else { "person" },
        undo: record.undoes.is_some(),
        redo: direction(records, record) == Direction::Redo,
        undone: step.map(|step| step.is_undone),
        repository: record.repository.as_ref().map(ToString::to_string),
        not_recorded: record.not_recorded.clone(),
        shared_with: record
            .shared_with
            .iter()
            .map(|other| other.name_in(&record.turn.session))
            .collect(),
        merged: record.applied.as_ref().map(|applied| applied.member.clone()),
        interrupted: record.interrupted,
        uncertain: record.uncertain.iter().map(|it| it.to_lossy().into_owned()).collect(),
        directory: record.directory.clone(),
        is_workspace: changes.is_workspace(&record.directory),
        files: files.collect(),
    })
}
