//! What providers counted in sessions.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};

use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use convoke_source::{FoundSession, SourceError};
use foldhash::fast::FixedState;
use rusqlite::{Connection, Row, params};

use super::{Index, IndexError, key, known, number, state};
use crate::catalog::Readers;
use crate::parallel;
use crate::prices::{OwnPrices, TABLE};
use crate::usage::{Counted, read};

impl Index {
    /// Returns the responses of sessions. What has changed since is read and remembered.
    pub fn responses(
        &mut self,
        readers: &Readers,
        sessions: &[FoundSession],
        own: &OwnPrices,
    ) -> Result<(Vec<Vec<Counted>>, Vec<SourceError>), IndexError> {
        let path = self.path.clone();
        responses(&mut self.database, readers, sessions, own)
            .map_err(|source| IndexError::Database { path, source })
    }
}

type Responses = (Vec<Vec<Counted>>, Vec<SourceError>);

fn responses(
    database: &mut Connection,
    readers: &Readers,
    sessions: &[FoundSession],
    own: &OwnPrices,
) -> rusqlite::Result<Responses> {
    let prices = fingerprint(own);
    let known = known(database)?;
    let mut fresh = HashMap::new();
    let mut stale = Vec::new();
    for session in sessions {
        let is_fresh = known.get(&key(session)).filter(|known| {
            known.figures.as_deref() == Some(&*format!("{} {prices}", state(session)))
        });
        match is_fresh {
            Some(known) => {
                fresh.insert(known.number, session);
            }
            None => stale.push(session),
        }
    }
    let mut counted = load(database, &fresh)?;
    let mut problems = Vec::new();
    let read = parallel::map(&stale, |session| read(readers, session, own));
    let transaction = database.transaction()?;
    for (session, result) in stale.into_iter().zip(read) {
        match result {
            Ok(responses) => {
                let number = number(&transaction, session)?;
                store(&transaction, number, &responses)?;
                transaction.execute(
                    "UPDATE session SET figures = ?2 WHERE number = ?1",
                    params![number, format!("{} {prices}", state(session))],
                )?;
                counted.push(responses);
            }
            Err((responses, problem)) => {
                counted.push(responses);
                problems.push(problem);
            }
        }
    }
    transaction.commit()?;
    Ok((counted, problems))
}

/// Returns a number that is another one when a price may be another one.
fn fingerprint(own: &OwnPrices) -> u64 {
    let mut hasher = FixedState::with_seed(1).build_hasher();
    TABLE.hash(&mut hasher);
    format!("{own:?}").hash(&mut hasher);
    hasher.finish()
}

fn load(
    database: &Connection,
    sessions: &HashMap<i64, &FoundSession>,
) -> rusqlite::Result<Vec<Vec<Counted>>> {
    let mut statement = database.prepare(
        "SELECT session, project, model, answer, at, input, cached, cache_write, output, reasoning,
         cost FROM response ORDER BY session, rowid",
    )?;
    let mut rows = statement.query([])?;
    let mut found: Vec<Vec<Counted>> = Vec::new();
    let mut current = None;
    let mut texts = HashSet::new();
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        let Some(session) = sessions.get(&number) else { continue };
        if current != Some(number) {
            current = Some(number);
            found.push(Vec::new());
        }
        if let Some(responses) = found.last_mut() {
            responses.push(response(row, session, &mut texts)?);
        }
    }
    Ok(found)
}

fn response(
    row: &Row<'_>,
    session: &FoundSession,
    texts: &mut HashSet<std::sync::Arc<str>>,
) -> rusqlite::Result<Counted> {
    let mut text = |column: usize| -> rusqlite::Result<_> {
        let Some(text) = row.get_ref(column)?.as_str_or_null()? else { return Ok(None) };
        if let Some(known) = texts.get(text) {
            return Ok(Some(known.clone()));
        }
        let new: std::sync::Arc<str> = text.into();
        texts.insert(new.clone());
        Ok(Some(new))
    };
    let count = |column: usize| row.get::<_, i64>(column).map(i64::cast_unsigned);
    Ok(Counted {
        agent: session.program,
        session: session.id.as_str().into(),
        project: text(1)?,
        model: text(2)?,
        answer: row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned),
        at: row.get::<_, Option<i64>>(4)?.map(Millis),
        usage: Usage {
            input: count(5)?,
            cached: count(6)?,
            cache_write: count(7)?,
            output: count(8)?,
            reasoning: count(9)?,
        },
        cost: row.get(10)?,
    })
}

fn store(transaction: &Connection, session: i64, responses: &[Counted]) -> rusqlite::Result<()> {
    transaction.execute("DELETE FROM response WHERE session = ?1", [session])?;
    let mut insert = transaction
        .prepare("INSERT INTO response VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")?;
    for it in responses {
        let Usage { input, cached, cache_write, output, reasoning } = it.usage;
        insert.execute(params![
            session,
            it.project.as_deref(),
            it.model.as_deref(),
            it.answer.map(u64::cast_signed),
            it.at.map(|at| at.0),
            input.cast_signed(),
            cached.cast_signed(),
            cache_write.cast_signed(),
            output.cast_signed(),
            reasoning.cast_signed(),
            it.cost,
        ])?;
    }
    Ok(())
}
