//! Sessions of other programs.

use std::collections::HashMap;
use std::ops::ControlFlow;

use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use convoke_source::{Entry, EntryKind, FoundSession, Request, Sink};

use crate::texts::Texts;
use crate::{Call, CallResult, Conversation, Failed, Invocation, ModelRequest, Step, StepKind};

/// Returns the cost of a request in dollars, if it is known.
pub type Price<'p> = dyn Fn(&Request<'_>, Option<Millis>) -> Option<f64> + 'p;

/// Collects the entries of a session. What follows a message of a person is an invocation.
pub struct ForeignConversation<'c> {
    conversation: Conversation,
    pub texts: Texts<'c>,
    provider: Option<&'static str>,
    price: &'c Price<'c>,
    /// The requests, which a reader tells when it knows their ends, and may tell again.
    requests: Vec<ModelRequest>,
    places: HashMap<(Option<String>, u64), usize>,
    model: Option<String>,
    /// The time of the last entry that has one.
    now: Millis,
}

impl<'c> ForeignConversation<'c> {
    /// Creates a session without entries.
    pub fn new(
        session: &FoundSession,
        provider: Option<&'static str>,
        texts: Texts<'c>,
        price: &'c Price<'c>,
    ) -> Self {
        let conversation = Conversation {
            program: session.program.to_owned(),
            id: session.id.clone(),
            directory: session.cwd.clone(),
            ..Conversation::default()
        };
        Self {
            conversation,
            texts,
            provider,
            price,
            requests: Vec::new(),
            places: HashMap::new(),
            model: None,
            now: Millis(0),
        }
    }

    /// Returns the session.
    pub fn into_conversation(mut self) -> Conversation {
        if self.conversation.invocations.is_empty() && !self.requests.is_empty() {
            self.begin(None);
        }
        let Self { mut conversation, requests, now, .. } = self;
        let invocations = &mut conversation.invocations;
        for request in requests {
            let after = invocations.partition_point(|it| it.began <= request.began);
            invocations[after.saturating_sub(1)].requests.push(request);
        }
        invocations.iter_mut().for_each(count);
        conversation.began = invocations.first().map(|invocation| invocation.began);
        conversation.ended = conversation.began.map(|_| now);
        conversation
    }

    fn begin(&mut self, input: Option<String>) {
        let number = self.conversation.invocations.len() + 1;
        self.conversation.invocations.push(Invocation {
            key: format!("message {number}"),
            agent: self.conversation.program.clone(),
            provider: self.provider.map(str::to_owned),
            model: self.model.clone(),
            began: self.now,
            ended: self.now,
            input,
            steps: Vec::new(),
            requests: Vec::new(),
            usage: None,
            cost: None,
            failed: None,
        });
    }

    /// Returns the invocation that goes on.
    fn current(&mut self) -> Option<&mut Invocation> {
        if self.conversation.invocations.is_empty() {
            self.begin(None);
        }
        let now = self.now;
        let invocation = self.conversation.invocations.last_mut()?;
        invocation.ended = invocation.ended.max(now);
        Some(invocation)
    }

    fn add_step(&mut self, sub_agent: Option<&str>, kind: StepKind) {
        let (at, sub_agent) = (self.now, sub_agent.map(str::to_owned));
        if let Some(invocation) = self.current() {
            invocation.steps.push(Step { at, sub_agent, kind });
        }
    }

    fn add_request(&mut self, request: &Request<'_>, at: Option<Millis>, agent: Option<&str>) {
        let now = at.unwrap_or(self.now);
        let cost = (self.price)(request, at);
        let number = request.key;
        let failed = request.status.filter(|status| *status >= 400).map(|status| Failed {
            kind: status.to_string(),
            message: format!("the provider answered with {status}"),
        });
        let told = ModelRequest {
            key: format!("request {number} of {}", agent.unwrap_or_default()),
            sub_agent: agent.map(str::to_owned),
            purpose: request.purpose,
            began: now,
            ended: now,
            model: request.model.map(str::to_owned),
            answered_by: request.model.map(str::to_owned),
            usage: request.usage,
            cost,
            failed,
        };
        let key = (agent.map(str::to_owned), request.key);
        if let Some(&place) = self.places.get(&key) {
            self.requests[place] = told;
        } else {
            self.places.insert(key, self.requests.len());
            self.requests.push(told);
        }
    }
}

/// Adds up the tokens and the cost of an invocation.
fn count(invocation: &mut Invocation) {
    let Invocation { requests, usage, cost, model, ended, .. } = invocation;
    *usage = requests.iter().filter_map(|request| request.usage).reduce(Usage::and);
    *cost = requests.iter().filter_map(|request| request.cost).reduce(|sum, cost| sum + cost);
    *model = model.take().or_else(|| requests.iter().find_map(|request| request.model.clone()));
    *ended = requests.iter().map(|request| request.ended).fold(*ended, Ord::max);
}

impl Sink for ForeignConversation<'_> {
    fn take(&mut self, entry: Entry<'_>) -> ControlFlow<()> {
        self.now = entry.at.unwrap_or(self.now).max(self.now);
        let agent = entry.agent;
        match entry.kind {
            EntryKind::Facts(facts) => {
                let told = |new: Option<&str>, old: &mut Option<String>| {
                    *old = new.map(str::to_owned).or(old.take());
                };
                told(facts.version, &mut self.conversation.version);
                told(facts.title, &mut self.conversation.name);
                told(facts.cwd, &mut self.conversation.directory);
                told(facts.model, &mut self.model);
            }
            EntryKind::Person { text } => {
                let input = self.texts.take(text);
                self.begin(input);
            }
            EntryKind::Text { text } => {
                let text = self.texts.take(text);
                self.add_step(agent, StepKind::Text(text));
            }
            EntryKind::Thinking { text } => {
                let text = self.texts.take(text);
                self.add_step(agent, StepKind::Thinking(text));
            }
            EntryKind::Call { id, name, input } => {
                let input = self.texts.take(input);
                let (id, tool) = (id.to_owned(), name.to_owned());
                self.add_step(agent, StepKind::Call(Call { id, tool, input, result: None }));
            }
            EntryKind::Result { id, ok, output } => {
                let result = CallResult { at: self.now, ok, output: self.texts.take(output) };
                if let Some(invocation) = self.current() {
                    invocation.close_call(id, result);
                }
            }
            EntryKind::Failed { status, message } => {
                let kind = status.map_or_else(|| "failed".to_owned(), |it| it.to_string());
                let failed = Failed { kind, message: message.to_owned() };
                if let Some(invocation) = self.current() {
                    invocation.failed = Some(failed);
                }
            }
            EntryKind::Request(request) => self.add_request(request, entry.at, agent),
            EntryKind::PersonAnswered { .. }
            | EntryKind::PlanApproved { .. }
            | EntryKind::Changed(_)
            | EntryKind::Todo(_)
            | EntryKind::Compacted { .. } => {}
        }
        ControlFlow::Continue(())
    }
}
