//! A trajectory in the Agent Trajectory Interchange Format, version 1.7.
//!
//! A message is a step of the user. What an agent says and does until its tools have returned is a step of the agent: one
//! inference with its calls and their results. Sub-agents have trajectories of their own inside.

use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{Call, Conversation, Invocation, ModelRequest, Step, StepKind};

/// The version of the format.
pub const VERSION: &str = "ATIF-v1.7";

/// A trajectory.
#[derive(Debug, Serialize)]
pub struct Trajectory {
    schema_version: &'static str,
    session_id: String,
    #[serde(rename = "trajectory_id", skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    agent: Agent,
    steps: Vec<TrajectoryStep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<String>,
    final_metrics: FinalMetrics,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subagent_trajectories: Vec<Trajectory>,
}

#[derive(Debug, Clone, Serialize)]
struct Agent {
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_name: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Source {
    User,
    #[default]
    Agent,
}

#[derive(Debug, Default, Serialize)]
struct TrajectoryStep {
    step_id: usize,
    timestamp: String,
    source: Source,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_name: Option<String>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observation: Option<Observation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<Metrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<Value>,
}

#[derive(Debug, Serialize)]
struct ToolCall {
    #[serde(rename = "tool_call_id")]
    id: String,
    function_name: String,
    arguments: Map<String, Value>,
}

#[derive(Debug, Default, Serialize)]
struct Observation {
    results: Vec<ObservationResult>,
}

#[derive(Debug, Serialize)]
struct ObservationResult {
    source_call_id: String,
    content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subagent_trajectory_ref: Vec<SubagentRef>,
}

#[derive(Debug, Serialize)]
struct SubagentRef {
    trajectory_id: String,
}

#[derive(Debug, Serialize)]
struct Metrics {
    prompt_tokens: u64,
    completion_tokens: u64,
    cached_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
}

#[derive(Debug, Default, Serialize)]
struct FinalMetrics {
    #[serde(rename = "total_prompt_tokens", skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<u64>,
    #[serde(rename = "total_completion_tokens", skip_serializing_if = "Option::is_none")]
    completion_tokens: Option<u64>,
    #[serde(rename = "total_cached_tokens", skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    #[serde(rename = "total_cost_usd", skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    #[serde(rename = "total_steps")]
    steps: usize,
}

/// Returns a session as a trajectory.
pub fn trajectory(conversation: &Conversation) -> Trajectory {
    let mut steps = Vec::new();
    let mut sub_agents = Vec::new();
    for invocation in &conversation.invocations {
        steps.extend(invocation.input.as_ref().map(|input| TrajectoryStep {
            timestamp: timestamp(invocation.began),
            source: Source::User,
            message: input.clone(),
            ..TrajectoryStep::default()
        }));
        steps.extend(agent_steps(invocation, None));
        for name in invocation.sub_agents() {
            sub_agents.push(sub_agent(conversation, invocation, name));
        }
    }
    let model = conversation.invocations.iter().find_map(|it| it.model.clone());
    let usage = conversation.invocations.iter().filter_map(|it| it.usage).reduce(Usage::and);
    let costs = || conversation.invocations.iter().filter_map(|it| it.cost);
    let metrics = final_metrics(usage, costs().next().map(|_| costs().sum()), steps.len());
    Trajectory {
        schema_version: VERSION,
        session_id: conversation.id.clone(),
        id: None,
        agent: agent(conversation, &conversation.program, model),
        steps: numbered(steps),
        notes: conversation.name.clone(),
        final_metrics: metrics,
        subagent_trajectories: sub_agents,
    }
}

fn agent(conversation: &Conversation, name: &str, model_name: Option<String>) -> Agent {
    let version = conversation.version.clone().unwrap_or_else(|| "unknown".to_owned());
    Agent { name: name.to_owned(), version, model_name }
}

fn trajectory_id(invocation: &Invocation, name: &str) -> String {
    format!("{}, {name}", invocation.key)
}

fn sub_agent(conversation: &Conversation, invocation: &Invocation, name: &str) -> Trajectory {
    let steps = agent_steps(invocation, Some(name));
    let requests = || invocation.requests.iter().filter(|it| it.sub_agent.as_deref() == Some(name));
    let usage = requests().filter_map(|it| it.usage).reduce(Usage::and);
    let costs = || requests().filter_map(|it| it.cost);
    let metrics = final_metrics(usage, costs().next().map(|_| costs().sum()), steps.len());
    Trajectory {
        schema_version: VERSION,
        session_id: conversation.id.clone(),
        id: Some(trajectory_id(invocation, name)),
        agent: agent(conversation, name, requests().find_map(|it| it.model.clone())),
        steps: numbered(steps),
        notes: None,
        final_metrics: metrics,
        subagent_trajectories: Vec::new(),
    }
}

fn numbered(steps: Vec<TrajectoryStep>) -> Vec<TrajectoryStep> {
    let numbered = steps.into_iter().zip(1..);
    numbered.map(|(step, step_id)| TrajectoryStep { step_id, ..step }).collect()
}

/// Returns the steps of the agent itself, or of a sub-agent.
fn agent_steps(invocation: &Invocation, sub_agent: Option<&str>) -> Vec<TrajectoryStep> {
    let mut steps: Vec<TrajectoryStep> = Vec::new();
    let own = invocation.steps.iter().filter(|step| step.sub_agent.as_deref() == sub_agent);
    let mut returned_at = None;
    for step in own {
        let begins = match steps.last() {
            None => true,
            Some(last) => match &step.kind {
                // A call that begins after another returned is of the next inference.
                StepKind::Call(_) => returned_at.is_some_and(|at| step.at > at),
                StepKind::Text(_) | StepKind::Thinking(_) => !last.tool_calls.is_empty(),
            },
        };
        if begins {
            returned_at = None;
            steps.push(TrajectoryStep {
                timestamp: timestamp(step.at),
                model_name: invocation.model.clone(),
                extra: Some(json!({ "agent": invocation.agent })),
                ..TrajectoryStep::default()
            });
        }
        if let Some(last) = steps.last_mut() {
            add(last, step, invocation);
        }
        if let StepKind::Call(Call { result: Some(result), .. }) = &step.kind {
            returned_at = returned_at.max(Some(result.at));
        }
    }
    measure(&mut steps, invocation, sub_agent);
    steps
}

fn add(to: &mut TrajectoryStep, step: &Step, invocation: &Invocation) {
    let join = |old: &mut String, new: &str| {
        if !old.is_empty() {
            old.push_str("\n\n");
        }
        old.push_str(new);
    };
    match &step.kind {
        StepKind::Text(text) => join(&mut to.message, text.as_deref().unwrap_or_default()),
        StepKind::Thinking(text) => {
            let reasoning = to.reasoning_content.get_or_insert_default();
            join(reasoning, text.as_deref().unwrap_or_default());
        }
        StepKind::Call(call) => {
            to.tool_calls.push(ToolCall {
                id: call.id.clone(),
                function_name: call.tool.clone(),
                arguments: arguments(call.input.as_deref().unwrap_or_default()),
            });
            if let Some(result) = &call.result {
                let is_its = invocation.sub_agents().contains(&call.id.as_str());
                let refs = is_its
                    .then(|| SubagentRef { trajectory_id: trajectory_id(invocation, &call.id) });
                to.observation.get_or_insert_default().results.push(ObservationResult {
                    source_call_id: call.id.clone(),
                    content: result.output.clone().unwrap_or_default(),
                    subagent_trajectory_ref: refs.into_iter().collect(),
                });
            }
        }
    }
}

/// Returns the arguments of a call, which are an object in this format.
fn arguments(input: &str) -> Map<String, Value> {
    match serde_json::from_str(input) {
        Ok(Value::Object(arguments)) => arguments,
        Ok(Value::Null) => Map::new(),
        Ok(other) => Map::from_iter([("input".to_owned(), other)]),
        Err(_) if input.is_empty() => Map::new(),
        Err(_) => Map::from_iter([("input".to_owned(), input.into())]),
    }
}

/// Gives each step the figures of its request, if there is one request for each.
fn measure(steps: &mut [TrajectoryStep], invocation: &Invocation, sub_agent: Option<&str>) {
    let answers = |request: &&ModelRequest| {
        request.purpose == RequestPurpose::Answer
            && request.usage.is_some()
            && request.sub_agent.as_deref() == sub_agent
    };
    let mut requests: Vec<_> = invocation.requests.iter().filter(answers).collect();
    requests.sort_by_key(|request| request.began);
    if requests.len() != steps.len() {
        return;
    }
    for (step, request) in steps.iter_mut().zip(requests) {
        step.model_name = request.model.clone().or(step.model_name.take());
        step.metrics = request.usage.map(|usage| Metrics {
            prompt_tokens: usage.input,
            completion_tokens: usage.output,
            cached_tokens: usage.cached,
            cost_usd: request.cost,
        });
    }
}

fn final_metrics(usage: Option<Usage>, cost: Option<f64>, steps: usize) -> FinalMetrics {
    FinalMetrics {
        prompt_tokens: usage.map(|usage| usage.input),
        completion_tokens: usage.map(|usage| usage.output),
        cached_tokens: usage.map(|usage| usage.cached),
        cost_usd: cost,
        steps,
    }
}

fn timestamp(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at.0).map_or_else(|_| String::new(), |at| at.to_string())
}
