//! What every program loads in every place of a repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use convoke_explain::{DirectoryReport, Edition, Session, explain_each};
use convoke_files::Files;

use crate::record::{Record, relative};
use crate::shared_files::SharedFiles;

/// A home directory that no machine has, so that no user's files count.
const NO_HOME: &str = "/nonexistent";

/// What every program loads in every place.
#[derive(Debug)]
pub struct Measurement {
    /// The root of the repository.
    pub root: PathBuf,
    pub editions: Vec<Edition>,
    /// By place, as it is seen from the root.
    pub places: BTreeMap<String, PlaceReport>,
}

/// The report on one place.
#[derive(Debug)]
pub struct PlaceReport {
    /// What is loaded there; the texts of files are left out.
    pub report: DirectoryReport,
    /// By the name of the agent.
    pub records: BTreeMap<String, Record>,
}

/// Explains places of a repository without the files of a user and of the machine, so that every machine finds the same.
pub fn measure(
    files: &(dyn Files + Sync),
    root: &Path,
    places: &BTreeSet<PathBuf>,
    editions: &[Edition],
    tokens: &(dyn Fn(&str) -> u64 + Sync),
) -> Measurement {
    let shared = SharedFiles::new(files, root);
    let sessions: Vec<Session> = places.iter().map(|place| session(place)).collect();
    let measured = explain_each(&shared, &sessions, editions, &|mut report| {
        let records = report
            .agents
            .iter()
            .map(|agent| (agent.agent.to_owned(), Record::of(agent, root, &|text| tokens(text))));
        let records = records.collect();
        for file in report.agents.iter_mut().flat_map(|agent| &mut agent.loaded) {
            file.text = String::new();
        }
        (relative(root, &report.cwd), PlaceReport { report, records })
    });
    Measurement {
        root: root.to_owned(),
        editions: editions.to_vec(),
        places: measured.into_iter().collect(),
    }
}

/// Returns the session of an agent that trusts the repository and knows no user.
fn session(place: &Path) -> Session {
    let mut session = Session::new(place, NO_HOME);
    for cli in convoke_vendors::clis() {
        for (name, value) in cli.trusting_variables() {
            session.variables.insert((*name).to_owned(), (*value).to_owned());
        }
    }
    session
}
