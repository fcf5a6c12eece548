//! Compiles the Rust example of the README, which shows exactly these lines.

#![expect(clippy::print_stdout, reason = "this is a test")]

use std::path::Path;

type AnyError = Box<dyn std::error::Error>;

#[rustfmt::skip]
fn example() -> Result<(), AnyError> {
    // README begins
    use convoke_core::prompt_builder::{PromptInput, build_prompt};

    let mut input = PromptInput::new("claude", "max", "What is left to do?");
    input.system_instruction_text = Some("You are Max.");
    input.team_task = Some("Review the authentication module");
    let output = build_prompt(&input)?;
    println!("{}", output.prompt);
    println!("{}", serde_json::to_string(&output.ledger)?);
    // README ends
    assert_eq!(
        output.prompt,
        "[TEAM_TASK]\nReview the authentication module\n\n[MESSAGE]\nWhat is left to do?"
    );
    Ok(())
}

#[test]
fn the_example_of_the_readme_runs() -> Result<(), AnyError> {
    example()?;
    let source = include_str!("readme.rs");
    let (_, source) = source.split_once("// README begins\n").expect("its beginning");
    let (source, _) = source.split_once("    // README ends").expect("its end");
    let lines = source.lines().map(|line| line.strip_prefix("    ").unwrap_or(line));
    let example = lines.flat_map(|line| [line, "\n"]).collect::<String>();
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../README.md");
    let readme = std::fs::read_to_string(readme)?;
    let shown: Vec<_> = readme.split("```rust\n").skip(1).collect();
    assert_eq!(shown.len(), 1, "the README has one Rust example");
    assert_eq!(shown[0].split("```").next(), Some(&*example));
    Ok(())
}
