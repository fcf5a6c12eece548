//! Captures log output.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

pub use tracing::Level;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Runs a closure and returns the lines that it logged.
pub fn logged(run: impl FnOnce()) -> Vec<(Level, String)> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    tracing::subscriber::with_default(Lines(Arc::clone(&lines)), run);
    std::mem::take(&mut *lines.lock().expect("one thread"))
}

struct Lines(Arc<Mutex<Vec<(Level, String)>>>);

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().expect("one thread").push((*event.metadata().level(), message.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            write!(self.0, "{value:?}").expect("writing to a string");
        }
    }
}
