//! The methods, each of them one call of the engine.

use std::sync::{Arc, Mutex, PoisonError};

use convoke_core::json::InvalidField;
use convoke_core::marker::{TextPolicy, scan, strip_all_markers};
use convoke_core::{
    AssemblerInput, BudgetTooSmall, ContextManager, ContextManagerOptions, ContextOptions, Hooks,
    Millis, NewMessage, without_known_field,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::envelope::{Error, notification};
use super::params::{Params, read_agent_context, read_manager_options, read_text};
use crate::prompt_json::PromptJson;

/// The maximum number of names in the answer of `scan`. Each takes hundreds of times the memory of its letters.
const MAX_NAMES: usize = 200_000;

/// The methods.
const METHODS: [&str; 13] = [
    "configure",
    "addMessage",
    "getMessages",
    "getLatestMessage",
    "setTeamTask",
    "getTeamTask",
    "getContextForAgent",
    "assemblePrompt",
    "clear",
    "exportSnapshot",
    "importSnapshot",
    "stripAllMarkers",
    "scan",
];

/// The notifications of the call that is being answered. They are written before the next call is read.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    fn add(&self, event: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The conversation that a client drives.
pub(super) struct Server {
    manager: ContextManager,
    options: ContextManagerOptions,
    /// Whether a message was added or imported, so that the options are fixed.
    started: bool,
    events: Events,
}

impl Server {
    pub(super) fn new(text: TextPolicy) -> Self {
        let options = ContextOptions { text, ..ContextOptions::default() };
        Self::with_options(options.into())
    }

    fn with_options(options: ContextManagerOptions) -> Self {
        let events = Events::default();
        let manager = ContextManager::new(options.clone(), hooks(&events));
        Self { manager, options, started: false, events }
    }

    /// Takes the notifications since the last call.
    pub(super) fn events(&self) -> impl Iterator<Item = String> {
        self.events.take().into_iter()
    }

    /// Answers a call with JSON.
    pub(super) fn call(
        &mut self,
        method: &str,
        params: Value,
        now: &impl Fn() -> Millis,
    ) -> Result<String, Error> {
        if !METHODS.contains(&method) {
            return Err(Error::unknown_method(method));
        }
        let mut params = Params::new(params)?;
        match method {
            "configure" => self.configure(&mut params),
            "addMessage" => {
                let message = NewMessage::from_json(params.value())
                    .map_err(|error| Error::invalid_params(error.to_string()))?;
                self.started = true;
                to_json(self.manager.add_message(message))
            }
            "getMessages" => to_json(&self.manager.messages().collect::<Vec<_>>()),
            "getLatestMessage" => to_json(&self.manager.latest_message()),
            "setTeamTask" => {
                self.manager.set_team_task(&params.string("task")?);
                to_json(&())
            }
            "getTeamTask" => to_json(&self.manager.team_task()),
            "getContextForAgent" => self.context_for_agent(&mut params),
            "assemblePrompt" => self.assemble_prompt(&mut params),
            "clear" => {
                self.manager.clear();
                to_json(&())
            }
            "exportSnapshot" => to_json(&self.manager.export_snapshot(now())),
            "importSnapshot" => {
                self.manager.import_snapshot(params.value()).map_err(|error| {
                    let data = json!({"reason": error.reason.to_string()});
                    Error::invalid_params(error.to_string()).with_data(data)
                })?;
                self.started |= !self.manager.history().is_empty();
                to_json(&())
            }
            "stripAllMarkers" => {
                to_json(&strip_all_markers(&params.string("text")?, self.options.context.text))
            }
            "scan" => {
                let text = params.string("text")?;
                let scan = scan(&text, self.options.context.text);
                if scan.next.len() + scan.drop.len() > MAX_NAMES {
                    let why = format!("`text` names more than {MAX_NAMES} members");
                    return Err(Error::invalid_params(why));
                }
                to_json(&json!({
                    "text": scan.text,
                    "next": scan.next,
                    "from": scan.from,
                    "task": scan.task,
                    "drop": scan.drop,
                }))
            }
            _ => Err(Error::unknown_method(method)),
        }
    }

    /// Replaces the options before the first message; keeps the team task.
    fn configure(&mut self, params: &mut Params) -> Result<String, Error> {
        if self.started {
            let why = "configure must come before the first message";
            return Err(Error::invalid_request(why));
        }
        let options = read_manager_options(params.options()?, self.options.clone())?;
        let task = self.manager.team_task().map(str::to_owned);
        *self = Self::with_options(options);
        if let Some(task) = task {
            self.manager.set_team_task(&task);
            // The task did not change, so no notification is sent.
            self.events().for_each(drop);
        }
        to_json(&())
    }

    fn context_for_agent(&self, params: &mut Params) -> Result<String, Error> {
        let agent_id = params.string("agentId")?;
        // 002 passes the type, but the context is the same for every type.
        params.string("agentType")?;
        let options = params.options()?;
        let context = read_agent_context(&options)?;
        let input = match read_text(&options, "inReplyTo")? {
            None => self.manager.context_for_agent(&agent_id, context),
            Some(id) => self
                .manager
                .context_for_reply(&id.into(), &agent_id, context)
                .map_err(|error| Error::invalid_params(error.to_string()))?,
        };
        to_json(&input)
    }

    fn assemble_prompt(&self, params: &mut Params) -> Result<String, Error> {
        let agent_type = params.string("agentType")?;
        let input = params.value();
        let says_fence = input.get("fence").is_some_and(|fence| !fence.is_null());
        input.as_object().and_then(without_known_field).map_or(Ok(()), Err)?;
        let mut input = AssemblerInput::from_json(input)?;
        if !says_fence {
            input.fencing = self.options.context.fencing;
        }
        let output = self.manager.assemble_prompt(&agent_type, &input)?;
        to_json(&PromptJson::new(None, &output))
    }
}

/// Creates hooks that write notifications.
fn hooks(events: &Events) -> Hooks {
    let (added, changed) = (events.clone(), events.clone());
    Hooks {
        message_added: Some(Box::new(move |message| {
            if let Ok(message) = serde_json::to_string(message) {
                added.add(notification("messageAdded", &message));
            }
        })),
        team_task_changed: Some(Box::new(move |task| {
            changed.add(notification("teamTaskChanged", &json!(task).to_string()));
        })),
        limit: None,
    }
}

fn to_json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::failed(error.to_string()))
}

impl From<InvalidField> for Error {
    fn from(error: InvalidField) -> Self {
        Self::invalid_params(error.to_string())
    }
}

impl From<BudgetTooSmall> for Error {
    fn from(error: BudgetTooSmall) -> Self {
        Self::failed(error.to_string()).with_data(json!({
            "code": BudgetTooSmall::CODE,
            "needed": error.needed,
            "smallest": error.smallest,
            "available": error.available,
        }))
    }
}
