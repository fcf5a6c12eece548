//! The machines that run turns of a shared store.

use convoke_session::sharing::{NodeState, NodeTurn};
use maud::{Markup, html};

use super::text::line;
use super::{moment, moment_ago, short};

/// Renders the nodes; `None` if the store is one of this machine alone.
pub(crate) fn nodes(nodes: Option<&[NodeState]>) -> Markup {
    html! {
        h1 { "Nodes" }
        @match nodes {
            None => div.empty {
                p { "The sessions are in a store of this machine." }
                p.faint { "Machines share a PostgreSQL store: " code { "convoke docs store" } " says how." }
            },
            Some([]) => div.empty {
                p { "No node runs turns of this store." }
                p.faint { code { "convoke node --store URL" } " starts one." }
            },
            Some(nodes) => ul.nodes { @for node in nodes { (self::node(node)) } },
        }
    }
}

fn node(node: &NodeState) -> Markup {
    let NodeState { name, holder, offer, turns, .. } = node;
    html! {
        li {
            div.heading {
                h2 { (line(name)) " " (state(node)) }
                p.faint { "process " (holder.pid) " on " (line(&holder.host)) ", since " (moment(holder.since)) }
            }
            p { "Runs " (line(&offer.agents.join(", "))) @if !offer.labels.is_empty() { span.faint { " · " (line(&offer.labels.join(", "))) } } }
            @if turns.is_empty() { p.faint { "No turn is running." } }
            @else { ul.rows { @for turn in turns { (self::turn(turn)) } } }
        }
    }
}

fn state(node: &NodeState) -> Markup {
    let (class, name) = match (node.is_alive, node.offer.is_draining) {
        (false, _) => ("failed", "lost"),
        (true, true) => ("waits", "draining"),
        (true, false) => ("live", "ready"),
    };
    html! { span.badge.(class) { (name) } }
}

fn turn(turn: &NodeTurn) -> Markup {
    let NodeTurn { session, turn, member, since, questions } = turn;
    html! {
        li { a.row href=(format!("/sessions/{session}")) {
            span { "Turn " (turn) " of " (line(member.as_str())) " in " (short(*session)) " " span.faint { (moment_ago(*since)) } }
            @if !questions.is_empty() { " " span.badge.waits { "waits for you" } }
        } }
    }
}
