//! Images and what is passed on by other ways than text.

use convoke_protocol::image::Image;
use convoke_protocol::verdict::Verdict;
use convoke_rehearsal::{Answer, Script};

use crate::test_host::{Cli, TestHost, codes};

/// A red square of 8 by 8 pixels.
const SQUARE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC";

pub async fn shows_an_image_to_its_model(cli: Cli) {
    let Some(test) = TestHost::new(cli, Script::new([Answer::say("A red square.")])).await else {
        return;
    };
    let mut turn_input = test.turn_input("What is square.png?");
    turn_input.images = vec![Image::new("square.png", SQUARE).unwrap()];
    let turn = test.run(turn_input).await;
    assert_eq!((&turn.verdict, &*turn.reply), (&Verdict::Done, "A red square."), "{turn:?}");
    assert!(!codes(&turn).contains(&"agent.image-unseen"), "{turn:?}");
    let calls = test.server.model_calls();
    let bodies: Vec<String> =
        calls.iter().map(|call| String::from_utf8_lossy(&call.body).into_owned()).collect();
    assert!(bodies.iter().any(|body| body.contains(SQUARE)), "{cli:?}: the model got no image");
    assert_eq!(test.processes(), [0; 0]);
}
