//! Histories of real leases: the operations of concurrent processes must be linearizable.

use std::sync::{Arc, Mutex};

use convoke_conformance_store::{Log, new_session, noted};
use convoke_protocol::id::{EventNumber, Millis, SessionId};
use convoke_session::sharing::NodeOffer;
use convoke_session::store::postgres::{PostgresStore, SessionLease};
use convoke_session::store::{Holder, SessionHold as _};
use convoke_session::{NewMessage, Store as _, StoreError};
use stateright::semantics::{ConsistencyTester as _, LinearizabilityTester, SequentialSpec};

use super::cluster::Cluster;
use super::node;

/// A session with its lease, as a sequential specification.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LeasedSession {
    /// The process that claimed the session last and has not released it.
    owner: Option<u32>,
    has_ended: bool,
    head: u64,
}

impl LeasedSession {
    /// Returns a session that was created and is not claimed.
    const CREATED: Self = Self { owner: None, has_ended: false, head: 1 };
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Operation {
    Claim(u32),
    /// A claim of any offered session, as a node makes it.
    ClaimOffered(u32),
    Commit(u32, u64),
    Release(u32),
    /// The database's clock passes the end of the lease.
    Expire,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Answer {
    Done,
    Held,
    EventNumber(u64),
    Conflict,
    Lost,
}

impl SequentialSpec for LeasedSession {
    type Op = Operation;
    type Ret = Answer;

    fn invoke(&mut self, operation: &Operation) -> Answer {
        match operation {
            Operation::Claim(_) | Operation::ClaimOffered(_)
                if self.owner.is_some() && !self.has_ended =>
            {
                Answer::Held
            }
            Operation::Claim(process) | Operation::ClaimOffered(process) => {
                (self.owner, self.has_ended) = (Some(*process), false);
                Answer::Done
            }
            Operation::Commit(process, _) if self.owner != Some(*process) || self.has_ended => {
                Answer::Lost
            }
            Operation::Commit(_, on) if *on != self.head => Answer::Conflict,
            Operation::Commit(..) => {
                self.head += 1;
                Answer::EventNumber(self.head)
            }
            Operation::Release(process) => {
                if self.owner == Some(*process) {
                    self.owner = None;
                }
                Answer::Done
            }
            Operation::Expire => {
                self.has_ended = true;
                Answer::Done
            }
        }
    }

    fn is_valid_step(&mut self, operation: &Operation, answer: &Answer) -> bool {
        // A node skips a session that another process is writing.
        let is_skipped = matches!((operation, answer), (Operation::ClaimOffered(_), Answer::Held));
        is_skipped || self.invoke(operation) == *answer
    }
}

type History = Arc<Mutex<LinearizabilityTester<u32, LeasedSession>>>;

/// A process that claims, commits and releases, determined by a seed.
struct Process {
    number: u32,
    store: PostgresStore,
    session: SessionId,
    pool: sqlx::PgPool,
    history: History,
    seed: u64,
}

impl Process {
    /// Returns a number below `below`.
    fn random(&mut self, below: u64) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn invoke(&self, operation: Operation) {
        self.history.lock().unwrap().on_invoke(self.number, operation).unwrap();
    }

    fn answer(&self, answer: Answer) {
        self.history.lock().unwrap().on_return(self.number, answer).unwrap();
    }

    /// Claims the session in one of two ways.
    async fn claim(&mut self) -> Option<SessionLease> {
        let holder = Holder { pid: self.number, host: "here".to_owned(), since: Millis(0) };
        if self.random(2) == 0 {
            self.invoke(Operation::ClaimOffered(self.number));
            let offer = NodeOffer::default();
            let claim = self.store.claim_offered("any", &offer, &[], &holder);
            return claim.await.unwrap().map(|(session, lease)| {
                assert_eq!(session, self.session);
                lease
            });
        }
        self.invoke(Operation::Claim(self.number));
        match self.store.hold(self.session, holder).await {
            Ok(held) => Some(held),
            Err(StoreError::Held { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    async fn run(mut self, steps: usize) {
        let mut lease = None;
        for _ in 0..steps {
            if self.random(4) == 0 {
                self.invoke(Operation::Expire);
                sqlx::query("UPDATE lease SET until = '-infinity' WHERE session = $1")
                    .bind(self.session.to_string())
                    .execute(&self.pool)
                    .await
                    .unwrap();
                self.answer(Answer::Done);
                continue;
            }
            let Some(held) = lease.take() else {
                lease = self.claim().await;
                self.answer(if lease.is_some() { Answer::Done } else { Answer::Held });
                continue;
            };
            if self.random(3) == 0 {
                self.invoke(Operation::Release(self.number));
                held.release().await;
                self.answer(Answer::Done);
                continue;
            }
            let log = Log::read(&self.store, self.session).await.unwrap();
            self.invoke(Operation::Commit(self.number, log.head.0));
            let answer = match self.store.commit(self.session, log.commit([noted()])).await {
                Ok(EventNumber(head)) => Answer::EventNumber(head),
                Err(StoreError::Conflict { .. }) => Answer::Conflict,
                Err(StoreError::HoldLost { .. }) => Answer::Lost,
                Err(error) => panic!("{error}"),
            };
            let is_lost = answer == Answer::Lost;
            self.answer(answer);
            if is_lost {
                held.forget();
            } else {
                lease = Some(held);
            }
        }
        if let Some(held) = lease {
            self.invoke(Operation::Release(self.number));
            held.release().await;
            self.answer(Answer::Done);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_processes_did_at_the_same_time_is_explained_by_one_order() {
    let cluster = Cluster::start();
    let stores = [node(&cluster).await, node(&cluster).await, node(&cluster).await];
    let pool = sqlx::PgPool::connect(&cluster.url()).await.unwrap();
    let mut commits = 0;
    for round in 0..12 {
        let new = new_session();
        stores[0].create(new.clone()).await.unwrap();
        // Nodes claim the session because of a message, which is never removed.
        stores[0].say(new.id, &NewMessage::from_person("ada", "go")).await.unwrap();
        let history: History =
            Arc::new(Mutex::new(LinearizabilityTester::new(LeasedSession::CREATED)));
        let processes = stores.iter().zip(0..).map(|(store, number)| {
            let process = Process {
                number,
                store: store.clone(),
                session: new.id,
                pool: pool.clone(),
                history: Arc::clone(&history),
                seed: round * 31 + u64::from(number) * 7919 + 1,
            };
            tokio::spawn(process.run(10))
        });
        for process in processes.collect::<Vec<_>>() {
            process.await.unwrap();
        }
        let history = history.lock().unwrap().clone();
        assert!(history.is_consistent(), "{history:?}");
        commits += stores[0].session(new.id).await.unwrap().head.0 - 1;
        sqlx::raw_sql("DELETE FROM offer").execute(&pool).await.unwrap();
    }
    assert!(commits > 0, "nothing was committed");
}

#[test]
fn a_write_of_a_stale_process_has_no_explanation() {
    let history = |is_claimed: bool, answer: Answer| {
        let mut tester = LinearizabilityTester::new(LeasedSession::CREATED);
        tester.on_invret(1, Operation::Claim(1), Answer::Done).unwrap();
        tester.on_invret(3, Operation::Expire, Answer::Done).unwrap();
        if is_claimed {
            tester.on_invret(2, Operation::Claim(2), Answer::Done).unwrap();
        }
        tester.on_invret(1, Operation::Commit(1, 1), answer).unwrap();
        tester.is_consistent()
    };
    for is_claimed in [true, false] {
        assert!(history(is_claimed, Answer::Lost));
        assert!(!history(is_claimed, Answer::EventNumber(2)));
    }
}
