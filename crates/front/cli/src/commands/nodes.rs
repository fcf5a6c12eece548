//! `convoke nodes`: lists the machines that run turns of a shared store.

use std::io::Write as _;

use crate::terminal::printable;
use clap::Args;
use convoke_session::AnyStore;
use convoke_session::sharing::{NodeState, NodeTurn};
use convoke_session::time_format::utc;
use serde_json::{Value, json};

use crate::conversation::store::open_store;
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};
use crate::terminal::stdout;

/// Show the nodes of a shared store and the turns that they run.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Runs `convoke nodes`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(list(arguments))
}

async fn list(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    let AnyStore::Postgres(store) = open_store(&host_environment).await? else {
        return Err(UsageError(
            "nodes need a store that machines share: pass --store URL (see `convoke docs store`)"
                .to_owned(),
        )
        .into());
    };
    let nodes = store.nodes().await?;
    let mut out = stdout();
    if arguments.json {
        let nodes: Vec<Value> = nodes.iter().map(as_json).collect();
        writeln!(out, "{}", json!({"nodes": nodes}))?;
    } else if nodes.is_empty() {
        writeln!(out, "no nodes; start one with: convoke node --store URL")?;
    } else {
        for node in &nodes {
            writeln!(out, "{}", printable(&as_text(node)))?;
            for NodeTurn { session, turn, member, since, questions } in &node.turns {
                let session = session.short();
                let line = format!("  {session}: turn {turn} of {member} since {}", utc(*since));
                writeln!(out, "{}", printable(&line))?;
                for question in questions.iter().filter_map(|question| question.lines().next()) {
                    writeln!(out, "    waits for an answer: {}", printable(question))?;
                }
            }
        }
    }
    store.close().await;
    Ok(Outcome::Done)
}

fn state(node: &NodeState) -> &'static str {
    match (node.is_alive, node.offer.is_draining) {
        (false, _) => "lost",
        (true, true) => "draining",
        (true, false) => "ready",
    }
}

fn as_text(node: &NodeState) -> String {
    let NodeState { name, holder, offer, .. } = node;
    let mut text = format!(
        "{name}: {}, process {} on {} since {}; offers {}",
        state(node),
        holder.pid,
        holder.host,
        utc(holder.since),
        offer.agents.join(", ")
    );
    if !offer.labels.is_empty() {
        text = format!("{text}; labels {}", offer.labels.join(", "));
    }
    text
}

fn as_json(node: &NodeState) -> Value {
    let NodeState { name, holder, offer, turns, .. } = node;
    json!({
        "name": name, "state": state(node), "pid": holder.pid, "host": holder.host,
        "since": holder.since, "agents": offer.agents, "versions": offer.versions,
        "labels": offer.labels, "turns": turns,
    })
}
