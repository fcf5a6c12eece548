//! The process that holds a session.

use convoke_protocol::id::Millis;

/// The process that has locked a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The process id.
    pub pid: u32,
    /// The name of the machine.
    pub host: String,
    /// The time of the lock.
    pub since: Millis,
}

impl Holder {
    /// Creates the holder for this process.
    pub fn this_process(since: Millis) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the kernel bounds the name")]
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = match name.trim() {
            "" => "this machine".to_owned(),
            name => name.to_owned(),
        };
        Self { pid: std::process::id(), host, since }
    }
}
