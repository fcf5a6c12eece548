use std::sync::Arc;

use convoke_protocol::window::{At, Placed, Role, Text, WindowPart};

use super::*;

fn place() -> Place {
    Place { file: "f".into(), at: At::Line(1) }
}

/// Adds a request with these messages, a minute each after the one before.
struct Session<'p> {
    view: CacheView<'p>,
    minute: i64,
}

impl Session<'_> {
    fn compact(&mut self) {
        let kind = EntryKind::Compacted { summary: "short", dropped: 2 };
        let _ = self.view.take(Entry { place: place(), at: None, agent: None, kind });
    }

    fn send(&mut self, model: &str, tools: &[&str], messages: &[&str], cached: u64) -> Verdict {
        let part = |text: &&str| WindowPart {
            role: Role::User,
            part: Arc::new(Placed { what: Part::Text(Text::new(text, 100)), place: place() }),
        };
        let window = Window {
            system: Vec::new(),
            tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
            parts: messages.iter().map(part).collect(),
        };
        self.minute += 1;
        let key = self.view.requests.len() as u64;
        let usage = Usage { input: 10_000, cached, ..Usage::default() };
        let kind = EntryKind::Request(&Request {
            key,
            answer_id: None,
            purpose: RequestPurpose::Answer,
            model: Some(model),
            window: &window,
            grade: Grade::Exact,
            missing: Vec::new(),
            usage: Some(usage),
            cache_write_hour: 0,
            tier: None,
            status: None,
            is_settled: true,
        });
        let at = Some(Millis(self.minute * 60_000));
        let _ = self.view.take(Entry { place: place(), at, agent: None, kind });
        self.view.requests.last().unwrap().verdict.clone()
    }
}

#[test]
fn a_request_names_what_broke_the_prefix() {
    let prices = OwnPrices::new();
    let mut session = Session { view: CacheView::new(None, &prices), minute: 0 };
    let changed = |verdict| match verdict {
        Verdict::Changed { cause, at } => (cause, at),
        other => panic!("{other:?}"),
    };
    assert_eq!(session.send("m", &["a"], &["1"], 0), Verdict::First);
    assert_eq!(session.send("m", &["a"], &["1", "2"], 9_000), Verdict::Served);
    assert_eq!(session.send("m", &["a"], &["1", "2", "3"], 0), Verdict::Missed);
    session.minute += 9;
    assert_eq!(session.send("m", &["a"], &["1", "2", "3", "4"], 0), Verdict::Pause(600_000));
    let edited = session.send("m", &["a"], &["1", "two", "3", "4"], 0);
    assert_eq!(changed(edited), (Cause::EditedMessage, "part 2 of the conversation".to_owned()));
    assert_eq!(changed(session.send("m", &["a", "b"], &["1"], 0)).0, Cause::ToolList);
    assert_eq!(changed(session.send("n", &["a", "b"], &["1"], 0)).0, Cause::Model);
    session.compact();
    assert_eq!(changed(session.send("n", &["a", "b"], &["short"], 0)).0, Cause::Compaction);
}

#[test]
fn a_miss_costs_what_reading_again_costs() {
    let price = crate::prices::OwnPrice {
        input: 10.0,
        output: 0.0,
        cache_read: Some(1.0),
        cache_write: None,
    };
    let prices = OwnPrices::from([("m".to_owned(), price)]);
    let mut session = Session { view: CacheView::new(None, &prices), minute: 0 };
    session.send("m", &[], &["1"], 0);
    session.send("m", &[], &["1", "2"], 0);
    let lost = session.view.requests[1].lost.unwrap();
    assert!((lost - 0.09).abs() < 1e-9, "{lost}");
}
