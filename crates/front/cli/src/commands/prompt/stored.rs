//! The prompt that a member of a stored session would get now.

use anyhow::Context as _;
use convoke_agent::adapter::continuity;
use convoke_core::AssemblerOutput;
use convoke_session::Store as _;
use convoke_session::memory::{Circumstances, PromptMemory, Recall};
use convoke_session::prompt::{InstructionFile, PromptRecord};

use super::{Arguments, member};
use crate::conversation::home::Home;
use crate::conversation::project::{Project, UserConfiguration};
use crate::conversation::{project_of, sessions};
use crate::host_environment;
use crate::outcome::UsageError;

/// Assembles the prompt of a member: for its queued turn, else for the newest message.
pub(super) fn assemble(
    arguments: &Arguments,
    written: &str,
) -> anyhow::Result<AssemblerOutput<'static>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let host_environment = host_environment::of_process()?;
        let home = Home::new(&host_environment);
        let user = UserConfiguration::load(&home)?;
        let store = sessions::open_store(&host_environment).await?;
        let session = store.session(sessions::find(&store, written).await?).await?;
        let id = session.began.id;
        let project = match &arguments.team {
            Some(path) => Project::read(path, &user)?,
            None => project_of(&session, &home, &user)?,
        };
        let team = project.team_with_formats(&user.catalog);
        let (member, settings) = member::find_agent(&team, &arguments.member)?;
        let file = settings.instructions_file.clone().zip(project.read_instructions(settings)?);
        let file = file.map(|(path, text)| InstructionFile { path, text });
        let open = store.open_turns(id).await?;
        let own = open.iter().find(|turn| turn.member == member.name);
        let newest = session.state.last_message;
        let answers = own.map_or(newest, |turn| turn.answers);
        if answers.0 == 0 {
            return Err(UsageError(format!("session {id} has no message to answer yet")).into());
        }
        let task = session.state.task.as_deref();
        let mut input = PromptRecord::new(&team, member, file, task, answers, newest);
        if settings.remembers()
            && let Some(definition) = user.catalog.get(&settings.agent)
        {
            let circumstances = Circumstances {
                session: id,
                continuity: continuity(definition),
                // No program of this process rests.
                holds: &|_| false,
                cwd: project.working_directory(settings),
                model: settings.model.as_deref(),
                texts: input.texts(),
                limit: settings.memory_limit,
            };
            let recall = Recall::new(session.state.memory.get(&member.name), &circumstances);
            let later = open.iter().filter(|turn| turn.member == member.name);
            let later = later.map(|turn| turn.answers).filter(|later| *later != answers);
            input.remember(PromptMemory { since: recall.since, later: later.collect() });
        }
        let material = input.read(&store, id).await?;
        let output = input.assemble(&material);
        output.with_context(|| format!("no prompt for {}", member.name))
    })
}
