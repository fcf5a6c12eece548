//! Stored requests belong to their session: copied, cut, exported, imported and removed with it.

use convoke_protocol::id::SessionId;
use convoke_session::Store as _;
use convoke_session::transfer::{TransferError, export, import};

use crate::room::{Room, new_session, thread};
use crate::test_session::unchecked;

#[tokio::test]
async fn a_copy_has_what_was_sent_in_its_turns_and_no_more() {
    let room = Room::sent().await;
    let (ada, bob) =
        (room.requests(room.session, "ada").await, room.requests(room.session, "bob b").await);
    assert_eq!((ada.len(), bob.len()), (3, 1));
    // Ada answers with messages 2 and 4; bob was asked in the fifth, and again in the sixth.
    let cases = [
        (None, 3, 1),
        (Some(6), 3, 1),
        (Some(5), 3, 1),
        (Some(4), 3, 0),
        (Some(3), 2, 0),
        (Some(2), 2, 0),
        (Some(1), 0, 0),
    ];
    for (after, hers, his) in cases {
        let (copy, told) = room.fork(after).await;
        assert_eq!(told, [""; 0], "after {after:?}");
        assert_eq!(room.requests(copy, "ada").await, ada[..hers], "after {after:?}");
        assert_eq!(room.requests(copy, "bob b").await, bob[..his], "after {after:?}");
        let threads = room.store.threads(copy).await.unwrap();
        assert_eq!(threads.len(), usize::from(hers > 0) + usize::from(his > 0), "{threads:?}");
    }
    assert_eq!(room.requests(room.session, "ada").await, ada, "the original is as it was");
}

#[tokio::test]
async fn what_was_sent_by_hand_goes_with_the_turn_before_it() {
    let room = Room::sent().await;
    let hers = thread(room.session, "ada");
    crate::room::send(&room.store, &hers, None, "by hand at last").await;
    let ada = room.requests(room.session, "ada").await;
    let (copy, _) = room.fork(Some(3)).await;
    assert_eq!(room.requests(copy, "ada").await, ada[..2]);
    let (copy, _) = room.fork(Some(4)).await;
    assert_eq!(room.requests(copy, "ada").await, ada);
}

#[tokio::test]
async fn removing_a_session_removes_what_was_sent_alone() {
    let room = Room::sent().await;
    let (copy, _) = room.fork(None).await;
    let ada = room.requests(copy, "ada").await;
    room.store.remove(room.session).await.unwrap();
    for member in ["ada", "bob b"] {
        assert_eq!(room.requests(room.session, member).await, []);
    }
    assert_eq!(room.requests(copy, "ada").await, ada);
}

#[tokio::test]
async fn every_request_is_exported_and_comes_back_to_the_byte() {
    let room = Room::sent().await;
    let text = room.exported().await;
    let other = Room::new().await;
    let mut new = new_session(SessionId::generate());
    import(&other.store, text.as_bytes(), new.clone(), unchecked()).await.unwrap();
    for member in ["ada", "bob b"] {
        let sent = room.requests(room.session, member).await;
        assert_eq!(other.requests(room.session, member).await, sent);
    }
    let mut out = Vec::new();
    export(&other.store, room.session, &mut out).await.unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), text);
    // If the id is taken, the requests get the new one.
    new.id = SessionId::generate();
    import(&room.store, text.as_bytes(), new.clone(), unchecked()).await.unwrap();
    assert_eq!(room.requests(new.id, "ada").await, room.requests(room.session, "ada").await);
}

#[tokio::test]
async fn requests_that_do_not_fit_are_refused_with_their_line_and_field_and_nothing_is_left_behind()
{
    let text = Room::sent().await.exported().await;
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().position(|line| line.starts_with("{\"request\"")).unwrap();
    let of_ada = lines[first];
    let at = |offset: usize, problem: &str| format!("line {}: {problem}", first + 1 + offset);
    let ada = |offset: usize, problem: &str| {
        at(offset, &format!("request {} of the thread `ada`: {problem}", offset + 1))
    };
    let changed = |from: &str, to: &str| {
        let (before, requests) = text.split_at(text.find(of_ada).unwrap());
        assert!(requests.contains(from), "{from}");
        format!("{before}{}", requests.replacen(from, to, 1))
    };
    let about = "\\\"bytes\\\":";
    let cases = [
        (changed("\"thread\":\"ada\"", "\"thread\":\"a/d\""), at(0, "`a/d` is not the name")),
        (
            changed("\"number\":1", "\"number\":2"),
            at(0, "request 2 of the thread `ada`: the field `number`"),
        ),
        (changed("\"about\":\"{", "\"about\":\"["), ada(0, "the field `about`: ")),
        (changed("\"outcome\":\"{", "\"outcome\":\"["), ada(0, "the field `outcome`: ")),
        (changed("\"fromStart\":0", "\"fromStart\":-1"), at(0, "invalid value")),
        (
            changed("\"attempt\":1,", ""),
            ada(0, "one of the fields `turn` and `attempt` is missing"),
        ),
        (changed("\"turn\":1", "\"turn\":9"), ada(0, "the field `turn`: there is no turn 9")),
        (
            changed("\"attempt\":1", "\"attempt\":2"),
            ada(0, "the field `attempt`: turn 1 has no attempt 2"),
        ),
        (
            changed("\"fromStart\":0", "\"fromStart\":1"),
            ada(0, "the field `body`: the delta refers to bytes outside"),
        ),
        (
            changed("\"between\":\"by hand ", "\"between\":\"by band "),
            ada(1, "the field `body`: the text does not have the hash"),
        ),
        (changed(about, "\\\"bytes\\\":1"), ada(0, "the field `about`: it records 1")),
        (
            changed("\\\"unchangedBytes\\\":1", "\\\"unchangedBytes\\\":999"),
            ada(0, "the field `about`: more bytes"),
        ),
        (
            format!("{text}{of_ada}\n"),
            "the lines of the thread `ada` are not consecutive".to_owned(),
        ),
    ];
    let room = Room::new().await;
    for (text, why) in cases {
        let new = new_session(SessionId::generate());
        let refused = import(&room.store, text.as_bytes(), new, unchecked()).await;
        let Err(error @ TransferError::Invalid { .. }) = refused else { panic!("{why}") };
        assert!(error.to_string().contains(&why), "{error} is not {why}");
        assert_eq!(room.store.sessions().await.unwrap(), []);
    }
}
