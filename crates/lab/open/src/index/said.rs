//! The words that were said in sessions.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use convoke_redact::Redactor;
use convoke_source::{Entry, FoundSession, Kept, SourceError};
use rusqlite::{Connection, params};

use super::{Index, IndexError, key, known, number, remove_words, state};
use crate::catalog::Readers;
use crate::parallel;
use crate::words::{each_word, said};

/// The bytes of different words that stand in one part of a session.
const PART: usize = 2 << 20;
/// The number of sessions that are read before their words are stored.
const BATCH: usize = 64;

impl Index {
    /// Returns those sessions in which one text may contain words that begin with each of these. Sessions that have changed
    /// are read first. One that cannot be read may contain them; one that was forgotten is left out.
    pub fn with_words(
        &mut self,
        readers: &Readers,
        sessions: Vec<FoundSession>,
        wanted: &[String],
    ) -> Result<(Vec<FoundSession>, Vec<SourceError>), IndexError> {
        let path = self.path.clone();
        let failed = |source| IndexError::Database { path: path.clone(), source };
        let forgotten = forgotten(&self.database).map_err(failed)?;
        let mut sessions = sessions;
        sessions.retain(|it| !forgotten.contains(&(it.program.to_owned(), it.id.clone())));
        let problems = update(&mut self.database, readers, &self.redactor, &sessions);
        let problems = problems.map_err(failed)?;
        let with = sessions_with(&self.database, wanted).map_err(failed)?;
        let known = known(&self.database).map_err(failed)?;
        sessions.retain(|session| {
            known.get(&key(session)).is_none_or(|known| with.contains(&known.number))
        });
        Ok((sessions, problems))
    }
}

fn forgotten(database: &Connection) -> rusqlite::Result<HashSet<(String, String)>> {
    let mut statement = database.prepare("SELECT program, id FROM forgotten")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Reads the sessions that have changed.
fn update(
    database: &mut Connection,
    readers: &Readers,
    redactor: &Redactor,
    sessions: &[FoundSession],
) -> rusqlite::Result<Vec<SourceError>> {
    let known = known(database)?;
    let is_stale = |session: &&FoundSession| {
        let known = known.get(&key(session));
        known.and_then(|known| known.words.as_deref()) != Some(&state(session))
    };
    let stale: Vec<&FoundSession> = sessions.iter().filter(is_stale).collect();
    let mut problems = Vec::new();
    for batch in stale.chunks(BATCH) {
        let parts = parallel::map(batch, |session| parts(readers, redactor, session));
        let transaction = database.transaction()?;
        let mut new_part = transaction.prepare("INSERT INTO part (session) VALUES (?1)")?;
        let mut new_words =
            transaction.prepare("INSERT INTO said (rowid, words) VALUES (?1, ?2)")?;
        for (session, parts) in batch.iter().zip(parts) {
            let parts = match parts {
                Ok(parts) => parts,
                Err(problem) => {
                    problems.push(problem);
                    continue;
                }
            };
            let number = number(&transaction, session)?;
            remove_words(&transaction, number)?;
            for part in parts {
                new_part.execute([number])?;
                new_words.execute(params![transaction.last_insert_rowid(), part])?;
            }
            transaction.execute(
                "UPDATE session SET words = ?2 WHERE number = ?1",
                params![number, state(session)],
            )?;
        }
        drop((new_part, new_words));
        transaction.commit()?;
    }
    Ok(problems)
}

/// Returns the words of the parts of a session, but for secrets. The words of one text are in one part.
fn parts(
    readers: &Readers,
    redactor: &Redactor,
    session: &FoundSession,
) -> Result<Vec<String>, SourceError> {
    let mut parts = Vec::new();
    let mut found: HashSet<String> = HashSet::new();
    let mut bytes = 0;
    let mut sink = |entry: Entry<'_>| {
        if let Some((_, text)) = said(&entry.kind) {
            each_word(&redactor.redact(&text), |word| {
                if !found.contains(word) {
                    bytes += word.len();
                    found.insert(word.to_owned());
                }
            });
            if bytes > PART {
                parts.push(joined(&mut found));
                bytes = 0;
            }
        }
        ControlFlow::Continue(())
    };
    readers.open(session, Kept::Said)?.advance(&mut sink)?;
    if !found.is_empty() {
        parts.push(joined(&mut found));
    }
    Ok(parts)
}

fn joined(words: &mut HashSet<String>) -> String {
    let mut words: Vec<String> = words.drain().collect();
    words.sort_unstable();
    words.join(" ")
}

/// Returns the numbers of sessions in a part of which are words that begin with each of these.
fn sessions_with(database: &Connection, wanted: &[String]) -> rusqlite::Result<HashSet<i64>> {
    let mut beginnings: HashMap<String, bool> = HashMap::new();
    for wanted in wanted {
        // `login_page` is two words, of which only the last may be a beginning.
        let mut words = Vec::new();
        each_word(wanted, |word| words.push(word.to_owned()));
        let last = words.pop();
        beginnings.extend(words.into_iter().map(|word| (word, true)));
        if let Some(word) = last {
            beginnings.entry(word).or_insert(false);
        }
    }
    let terms = beginnings.iter().map(|(word, is_whole)| {
        let mark = if *is_whole { "" } else { "*" };
        format!("\"{word}\"{mark}")
    });
    let query = terms.collect::<Vec<_>>().join(" AND ");
    let mut statement = database.prepare(
        "SELECT DISTINCT part.session FROM said JOIN part ON part.number = said.rowid
         WHERE said MATCH ?1",
    )?;
    statement.query_map([query], |row| row.get(0))?.collect()
}
