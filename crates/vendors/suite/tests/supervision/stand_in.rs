//! The stand-in.

use std::time::Duration;

use convoke_agent::Agent as _;
use convoke_agent::adapter::{Script, StandIn, Step};
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::verdict::Verdict;

use crate::test_host::TestHost;

#[tokio::test]
async fn the_stand_in_answers_from_its_script_and_then_with_an_account() {
    let test = TestHost::new();
    let stand_in = StandIn::new(Script::replies(["First."]));
    let first = stand_in.start(test.turn_input("hello")).result().await;
    assert_eq!((first.reply.as_str(), first.verdict), ("First.", Verdict::Done));
    let mut turn_input = test.turn_input("hello\nthere");
    turn_input.system = Some("Be kind.".to_owned());
    turn_input.resume = first.resume;
    let second = stand_in.start(turn_input).result().await;
    assert_eq!(
        second.reply,
        "I was sent a prompt of 11 bytes in 2 lines and a system text of 8 bytes, in a resumed session."
    );
}

#[tokio::test]
async fn the_stand_in_is_cancelled_hundreds_of_times_and_never_continues() {
    let test = TestHost::new();
    let children = || {
        let text = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        text.split_whitespace().count()
    };
    let before = children();
    for _ in 0..300 {
        let stand_in = StandIn::new(Script {
            turns: vec![vec![
                Step::Say("I begin".to_owned()),
                Step::Wait(Duration::from_secs(1000)),
                Step::Say("never said".to_owned()),
            ]],
        });
        let mut turn = stand_in.start(test.turn_input("hello"));
        while let Some(event) = turn.next().await {
            if matches!(event.kind, AgentEventKind::Text { .. }) {
                turn.canceller().cancel();
            }
            assert!(!format!("{event:?}").contains("never"));
        }
        assert_eq!(turn.result().await.verdict, Verdict::Cancelled);
    }
    assert_eq!(children(), before);
}
