//! The lease protocol as a model, checked in every order of its steps: two nodes claim a session, extend their
//! leases, run a turn, write progress and commit. Leases end at any time, and each node can be stopped and
//! continue later.

use stateright::{Checker as _, Model, Property};

/// The maximum number of claims and turns that are explored.
const MAX_CLAIMS: u8 = 5;
const MAX_TURNS: u8 = 3;

struct Protocol {
    /// Whether a write with another epoch than the lease's is refused.
    checks_epoch: bool,
    /// Whether a write or a heartbeat is refused after the lease has expired.
    checks_time: bool,
}

impl Protocol {
    /// Returns whether the database accepts a write or a heartbeat of an epoch.
    fn accepts(&self, world: &World, epoch: u8) -> bool {
        (epoch == world.epoch || !self.checks_epoch) && !(world.has_ended && self.checks_time)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    /// The row of the lease.
    epoch: u8,
    has_ended: bool,
    /// The epoch that recorded each turn, in the order of the records.
    turns: Vec<(u8, u8)>,
    nodes: [Node; 2],
    /// The number of writes by nodes whose session another node had claimed.
    stale_writes: u8,
    /// The number of writes by nodes whose lease had expired.
    late_writes: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Node {
    is_stopped: bool,
    /// The epoch of its lease and the turn that it runs.
    work: Option<(u8, u8)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    Claim(usize),
    Heartbeat(usize),
    Progress(usize),
    Commit(usize),
    Stop(usize),
    GoOn(usize),
    /// The database's clock passes the end of the lease.
    Expire,
}

impl World {
    fn head(&self) -> u8 {
        u8::try_from(self.turns.len()).unwrap()
    }

    /// Counts a write of an epoch.
    fn write(&mut self, epoch: u8) {
        self.stale_writes += u8::from(epoch != self.epoch);
        self.late_writes += u8::from(epoch == self.epoch && self.has_ended);
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let nodes = [Node { is_stopped: false, work: None }; 2];
        let (stale_writes, late_writes) = (0, 0);
        vec![World {
            epoch: 0,
            has_ended: true,
            turns: Vec::new(),
            nodes,
            stale_writes,
            late_writes,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        for (number, node) in world.nodes.iter().enumerate() {
            if node.is_stopped {
                steps.push(Step::GoOn(number));
                continue;
            }
            steps.push(Step::Stop(number));
            match node.work {
                Some(_) => steps.extend([
                    Step::Heartbeat(number),
                    Step::Progress(number),
                    Step::Commit(number),
                ]),
                None => steps.push(Step::Claim(number)),
            }
        }
        steps.push(Step::Expire);
    }

    fn next_state(&self, before: &World, step: Step) -> Option<World> {
        let mut world = before.clone();
        match step {
            Step::Claim(number) => {
                if !world.has_ended {
                    return None;
                }
                world.epoch += 1;
                world.has_ended = false;
                world.nodes[number].work = Some((world.epoch, world.head()));
            }
            Step::Heartbeat(number) => {
                let (epoch, _) = world.nodes[number].work?;
                if epoch == world.epoch && self.accepts(&world, epoch) {
                    world.has_ended = false;
                } else {
                    // The guardian terminates the agent.
                    world.nodes[number].work = None;
                }
            }
            Step::Progress(number) => {
                let (epoch, _) = world.nodes[number].work?;
                if self.accepts(&world, epoch) {
                    world.write(epoch);
                } else {
                    world.nodes[number].work = None;
                }
            }
            Step::Commit(number) => {
                let (epoch, on) = world.nodes[number].work.take()?;
                if self.accepts(&world, epoch) && on == world.head() {
                    world.write(epoch);
                    world.turns.push((on, epoch));
                    // The session is released in the same transaction.
                    world.has_ended = world.has_ended || epoch == world.epoch;
                }
            }
            Step::Stop(number) => world.nodes[number].is_stopped = true,
            Step::GoOn(number) => world.nodes[number].is_stopped = false,
            Step::Expire => world.has_ended = true,
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a turn is recorded once and in order", |_, world: &World| {
                world.turns.iter().enumerate().all(|(place, (turn, _))| place == usize::from(*turn))
            }),
            Property::always("later turns have later epochs", |_, world: &World| {
                world.turns.is_sorted_by_key(|(_, epoch)| *epoch)
            }),
            Property::always("a stale node writes nothing", |_, world: &World| {
                world.stale_writes == 0
            }),
            Property::always("a node whose lease is over writes nothing", |_, world: &World| {
                world.late_writes == 0
            }),
            Property::sometimes("every turn is done", |_, world: &World| world.head() == MAX_TURNS),
            Property::sometimes(
                "a turn is done after its first node was stopped",
                |_, world: &World| {
                    world.nodes[0].is_stopped
                        && world.nodes[0].work == Some((1, 0))
                        && world.turns == [(0, 2)]
                },
            ),
        ]
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.epoch <= MAX_CLAIMS
            && world.head() <= MAX_TURNS
            && world.stale_writes + world.late_writes <= 1
    }
}

#[test]
fn no_order_of_steps_records_a_turn_twice_or_lets_a_stale_node_write() {
    let protocol = Protocol { checks_epoch: true, checks_time: true };
    let checked = protocol.checker().spawn_bfs().join();
    checked.assert_properties();
    assert!(checked.unique_state_count() > 500, "{}", checked.unique_state_count());
}

#[test]
fn without_the_check_of_the_epoch_a_stale_node_writes() {
    let protocol = Protocol { checks_epoch: false, checks_time: true };
    let checked = protocol.checker().spawn_bfs().join();
    let path = checked.assert_any_discovery("a stale node writes nothing");
    assert!(path.into_actions().contains(&Step::Expire));
}

#[test]
fn without_the_check_of_the_time_a_node_writes_after_its_lease() {
    let protocol = Protocol { checks_epoch: true, checks_time: false };
    let checked = protocol.checker().spawn_bfs().join();
    checked.assert_any_discovery("a node whose lease is over writes nothing");
}
