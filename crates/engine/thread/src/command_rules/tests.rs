use super::approved_prefixes;
use convoke_files::MemoryTree;

fn approved(text: &str) -> (Vec<Vec<String>>, Vec<String>) {
    let mut tree = MemoryTree::default();
    tree.write("/rules/default.rules", text);
    tree.write("/rules/notes.txt", "not rules");
    let mut diagnostics = Vec::new();
    let prefixes = approved_prefixes(&tree, "/rules".as_ref(), &mut diagnostics);
    let messages = diagnostics.into_iter().map(|it| it.message).collect();
    (prefixes, messages)
}

#[test]
fn only_allowed_prefixes_are_returned_sorted_and_once() {
    let (prefixes, messages) = approved(
        r#"
        # what I trust
        prefix_rule(pattern = ["git", ["status", "log"]], decision = "allow")
        prefix_rule(pattern=["ls"], match=[["ls", "-l"]], justification="reads")  # default: allow
        prefix_rule(["ls"], "allow")
        prefix_rule(pattern=[["a", "b"], 'c d'])
        prefix_rule(pattern=["rm"], decision="forbidden")
        prefix_rule(pattern=["sudo",], decision="prompt",)
        "#,
    );
    let expected: [&[&str]; 4] = [&["a", "c d"], &["b", "c d"], &["git", "[status|log]"], &["ls"]];
    assert_eq!(prefixes, expected);
    assert!(messages.is_empty(), "{messages:?}");
}

#[test]
fn a_file_that_is_not_understood_is_named_with_its_line() {
    let cases = [
        ("prefix_rule(pattern=[\"a\"]\n", "line 2: expected `)`"),
        ("\nx = 1\n", "line 2: expected `prefix_rule`, found `x`"),
        ("prefix_rule(decision=\"allow\")", "line 1: a rule has no pattern"),
        ("prefix_rule(pattern=[\"a)", "line 1: unclosed string"),
        (&format!("prefix_rule({}", "[".repeat(100_000)), "line 1: lists are nested too deeply"),
    ];
    for (text, reason) in cases {
        let (prefixes, messages) = approved(text);
        assert!(prefixes.is_empty());
        assert_eq!(messages, [format!("/rules/default.rules is ignored: {reason}")]);
    }
}

#[test]
fn choices_that_stand_for_too_many_prefixes_are_refused_before_they_are_written_out() {
    let words = |count: usize| "\"word\",".repeat(count);
    let text = format!("prefix_rule([[{}], {}])", words(2_000), words(2_000));
    let (prefixes, messages) = approved(&text);
    assert!(prefixes.is_empty());
    assert!(messages[0].ends_with("the limit is 4194304 bytes"), "{messages:?}");
}

#[test]
fn a_file_over_the_limit_is_named_with_its_size_and_the_limit() {
    let (prefixes, messages) = approved(&"#".repeat((1 << 20) + 1));
    assert!(prefixes.is_empty());
    let told =
        "too large: 1048577 bytes, and the limit for a file of command rules is 1048576 bytes";
    assert_eq!(messages, [format!("/rules/default.rules is ignored: {told}")]);
}

#[test]
fn a_folder_that_cannot_be_listed_is_reported() {
    let mut tree = MemoryTree::default();
    tree.write("/rules/default.rules", "prefix_rule([\"ls\"])");
    tree.lock("/rules");
    let mut diagnostics = Vec::new();
    assert!(approved_prefixes(&tree, "/rules".as_ref(), &mut diagnostics).is_empty());
    assert_eq!(diagnostics[0].code.name(), "file.unreadable");
    diagnostics.clear();
    assert!(approved_prefixes(&tree, "/none".as_ref(), &mut diagnostics).is_empty());
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
}
