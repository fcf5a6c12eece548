//! The next turn of a session, and the nodes that it is offered to.

use convoke_protocol::event::StopReason;
use convoke_protocol::id::{MemberName, Millis, SessionId, TurnId};
use convoke_protocol::permission::PermissionAnswer;
use convoke_protocol::question::QuestionId;
use serde::{Deserialize, Serialize};

use crate::{Guard, Holder};

/// The requirements of a member's turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRequirements {
    /// The agent, by the name in the team file.
    pub agent: String,
    /// The name or label of a node; `None` for any.
    pub node: Option<String>,
}

/// The next turn of a conversation, offered to other processes.
#[derive(Debug, Clone, PartialEq)]
pub struct NextTurn {
    pub turn: TurnId,
    /// The member whose turn it is.
    pub member: MemberName,
    pub requirements: TurnRequirements,
    /// The counts of the conversation since the last decision of a person, without the turn.
    pub guard: Guard,
}

/// A person's request to the process that runs a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnSignal {
    /// Cancel the turn.
    Cancel(TurnId),
    /// An answer to a question of its agent.
    Answer(QuestionId, PermissionAnswer),
}

/// The state of a session between the processes that share it.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedState {
    /// The process that holds the session.
    pub holder: Option<Holder>,
    /// Whether the conversation continues: a turn is offered, or a message is in the inbox.
    pub continues: bool,
    /// The offered turn.
    pub next: Option<NextTurn>,
    /// Whether the inbox has messages.
    pub has_messages: bool,
    /// The reason why the last holder stopped.
    pub stopped: Option<StopReason>,
}

/// The project of a session, which lets other machines find it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProjectOrigin {
    /// The URL of the git remote, without user and password.
    pub remote: String,
    /// The commit that was checked out when the session began.
    pub revision: String,
    /// The directory of the team below the repository's root; empty for the root.
    pub below: String,
}

/// The agents that a node offers to run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeOffer {
    /// The names of its agents.
    pub agents: Vec<String>,
    /// The labels. Members can require a label instead of the node's name.
    pub labels: Vec<String>,
    /// The known versions of its agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
    /// Whether the node accepts no more turns and exits after those that it runs.
    #[serde(default)]
    pub is_draining: bool,
    /// The turns for its agents that the node cannot run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftTurn>,
}

/// A turn that a node leaves to others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftTurn {
    pub session: SessionId,
    /// The turn; `None` if its messages cannot be stored there.
    pub turn: Option<TurnId>,
    /// The reason.
    pub problem: String,
}

impl NodeOffer {
    /// Returns whether a node with this name runs turns with these requirements.
    pub fn meets(&self, name: &str, requirements: &TurnRequirements) -> bool {
        self.has_name(name, requirements) && self.agents.contains(&requirements.agent)
    }

    /// Returns whether the name or a label of the node matches these requirements.
    fn has_name(&self, name: &str, requirements: &TurnRequirements) -> bool {
        requirements.node.as_ref().is_none_or(|node| node == name || self.labels.contains(node))
    }
}

/// Returns the reason why no node takes a turn; `None` if one can.
pub fn unclaimable(nodes: &[NodeState], session: SessionId, next: &NextTurn) -> Option<String> {
    let NextTurn { turn, requirements, .. } = next;
    let TurnRequirements { agent, node } = requirements;
    let is_named = |node: &&NodeState| node.offer.has_name(&node.name, requirements);
    let ready = nodes.iter().filter(|node| node.is_alive && !node.offer.is_draining);
    let named: Vec<&NodeState> = ready.filter(is_named).collect();
    let name = node.as_ref().map_or_else(String::new, |node| format!(" `{node}`"));
    if named.is_empty() {
        return Some(format!("no node{name} is ready"));
    }
    let offering = named.into_iter().filter(|node| node.offer.agents.contains(agent));
    let offering: Vec<&NodeState> = offering.collect();
    if offering.is_empty() {
        return Some(match node {
            Some(node) => format!("node `{node}` does not offer {agent}"),
            None => format!("no node offers {agent}"),
        });
    }
    let is_it = |left: &&LeftTurn| left.session == session && left.turn == Some(*turn);
    let left = |node: &NodeState| {
        let left = node.offer.left.iter().find(is_it)?;
        Some(format!("node `{}` cannot run it: {}", node.name, left.problem))
    };
    let problems: Option<Vec<String>> = offering.into_iter().map(left).collect();
    problems.map(|problems| problems.join("; "))
}

/// A registered node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeState {
    pub name: String,
    /// The process.
    pub holder: Holder,
    /// Whether the node's heartbeats arrive.
    pub is_alive: bool,
    pub offer: NodeOffer,
    /// The turns that it runs.
    pub turns: Vec<NodeTurn>,
}

/// A turn that a node runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTurn {
    pub session: SessionId,
    pub turn: TurnId,
    /// The member whose turn it is.
    pub member: MemberName,
    /// The time when the session was claimed.
    pub since: Millis,
    /// The unanswered questions of its agent: each with the tool and its action.
    pub questions: Vec<String>,
}
