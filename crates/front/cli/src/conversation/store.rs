//! The store of sessions: this machine's file, or a database that several machines share.

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use convoke_inspect::HostEnvironment;
use convoke_session::store::postgres::PostgresStore;
use convoke_session::{AnyStore, SqliteStore};

use super::home::Home;
use crate::outcome::UsageError;
use crate::user_settings::UserSettings;

/// The option that chooses the store.
#[derive(Debug, Clone, Default, Args)]
pub struct StoreSettings {
    /// Keep sessions in this PostgreSQL database (`postgres://user@host/database`) instead of the file on this machine
    #[arg(long, value_name = "URL", global = true)]
    store: Option<String>,
}

/// The variable with the password of the store. Agents do not inherit it.
pub const PASSWORD: &str = "CONVOKE_STORE_PASSWORD";

static SETTINGS: OnceLock<StoreSettings> = OnceLock::new();

impl StoreSettings {
    /// Returns the settings of this process, once they are applied.
    pub fn of_process() -> Option<&'static Self> {
        SETTINGS.get()
    }

    /// Returns the URL that the user passed.
    pub fn named(&self) -> Option<&str> {
        self.store.as_deref()
    }

    /// Sets the store of this process. Only the first call has an effect.
    pub fn apply(self) {
        let _ = SETTINGS.set(self);
    }
}

/// Returns whether the sessions are stored in a database instead of this machine's file.
pub fn is_store_elsewhere(host_environment: &HostEnvironment) -> bool {
    !matches!(url(host_environment), Ok(None))
}

/// Opens the store of sessions.
pub async fn open_store(host_environment: &HostEnvironment) -> anyhow::Result<AnyStore> {
    let named = url(host_environment)?;
    open_url(host_environment, named.as_deref().unwrap_or(OWN_FILE)).await
}

/// Opens the store of sessions for a command that only reads: this machine's file may lie where nothing can be written.
pub async fn open_store_for_reading(
    host_environment: &HostEnvironment,
) -> anyhow::Result<AnyStore> {
    match url(host_environment)?.as_deref() {
        None | Some(OWN_FILE) => {
            let store = SqliteStore::open_for_reading(&Home::new(host_environment).data).await;
            Ok(store.context("cannot open the session store")?.into())
        }
        Some(url) => open_url(host_environment, url).await,
    }
}

/// Returns the URL of the store that the user chose.
fn url(host_environment: &HostEnvironment) -> Result<Option<String>, UsageError> {
    let home = Home::new(host_environment);
    let named = SETTINGS.get().and_then(|settings| settings.store.clone());
    let named = named.or_else(|| {
        host_environment.variable("CONVOKE_STORE").and_then(|url| url.to_str().map(str::to_owned))
    });
    named.map_or_else(|| configured(&home), |url| Ok(Some(url)))
}

/// Returns the URL of the store of sessions.
pub fn store_url(host_environment: &HostEnvironment) -> Result<String, UsageError> {
    Ok(url(host_environment)?.unwrap_or_else(|| OWN_FILE.to_owned()))
}

/// Migrates a shared store of an older format.
pub async fn migrate(host_environment: &HostEnvironment, url: &str) -> anyhow::Result<()> {
    let password = host_environment.variable(PASSWORD).and_then(|password| password.to_str());
    let migrated = PostgresStore::migrate(url, password).await;
    migrated.with_context(|| format!("the store {url} was not migrated"))?;
    Ok(())
}

/// The time that a person who has left waits for the store.
const LEAVING: Duration = Duration::from_secs(2);

/// Reads the store for a person who has left the conversation, and gives up if a server does not respond.
pub async fn before_leaving<T>(read: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let read = tokio::time::timeout(LEAVING, read).await;
    read.unwrap_or_else(|_| {
        Err(anyhow::anyhow!(
            "the store does not respond; a turn that was not stored runs again when the session is resumed"
        ))
    })
}

/// The URL of the file of this machine.
pub const OWN_FILE: &str = "sqlite:";

/// Opens the store of a URL.
pub async fn open_url(host_environment: &HostEnvironment, url: &str) -> anyhow::Result<AnyStore> {
    if url == OWN_FILE {
        let home = Home::new(host_environment);
        tracing::info!(directory = %home.data.display(), "opening the store");
        let store = SqliteStore::open(&home.data).await.context("cannot open the session store")?;
        return Ok(store.into());
    }
    check(url)?;
    let password = host_environment.variable(PASSWORD).and_then(|password| password.to_str());
    tracing::info!(url, "opening the store");
    let store = match lease(host_environment)? {
        Some(lease) => PostgresStore::open_with_lease(url, password, lease).await,
        None => PostgresStore::open(url, password).await,
    };
    Ok(store.with_context(|| format!("cannot open the store {url}"))?.into())
}

/// The variable that sets the duration of leases in seconds; the default is 15.
const LEASE: &str = "CONVOKE_STORE_LEASE";

fn lease(host_environment: &HostEnvironment) -> Result<Option<Duration>, UsageError> {
    let Some(seconds) = host_environment.variable(LEASE) else { return Ok(None) };
    let seconds = seconds.to_str().and_then(|seconds| seconds.parse().ok());
    match seconds.filter(|seconds| (1..=3600).contains(seconds)) {
        Some(seconds) => Ok(Some(Duration::from_secs(seconds))),
        None => Err(UsageError(format!("{LEASE} must be a number of seconds from 1 to 3600"))),
    }
}

/// Returns the store that the user's configuration names.
fn configured(home: &Home) -> Result<Option<String>, UsageError> {
    Ok(UserSettings::read_in(&home.configuration, &home.user)?.store)
}

/// Rejects an address of another kind of database, and a password, which other users of the machine and logs could
/// see.
fn check(url: &str) -> Result<(), UsageError> {
    let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
    let Some(rest) = rest else {
        return Err(UsageError(
            "invalid store URL; use postgres://user@host/database, or sqlite: for the file on this machine".to_owned(),
        ));
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    if user.contains(':') || rest.contains("password=") {
        return Err(UsageError(
            "the URL of the store must not contain a password: set CONVOKE_STORE_PASSWORD, or write it to ~/.pgpass".to_owned(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_store_is_a_postgres_url_without_a_password() {
        for (url, is_right) in [
            ("postgres://convoke@db.example/team", true),
            ("postgresql:///team?host=/run/postgresql", true),
            ("postgres://convoke:secret@db.example/team", false),
            ("postgres://db.example/team?password=secret", false),
            ("mysql://db.example/team", false),
            ("sessions.db", false),
        ] {
            let checked = check(url);
            assert_eq!(checked.is_ok(), is_right, "{url}");
            assert!(!checked.is_err_and(|error| error.0.contains("secret")), "{url}");
        }
    }
}
