use convoke_explain::{Session, explain};
use convoke_files::MemoryTree;

use super::*;

fn rendered(width: usize, is_painted: bool) -> String {
    rendered_as(width, is_painted, false)
}

fn rendered_as(width: usize, is_painted: bool, is_brief: bool) -> String {
    let mut tree = MemoryTree::default();
    for number in 100..200 {
        let text = format!("---\nname: s{number}\ndescription: {}\n---\n", "d".repeat(400));
        tree.write(format!("/h/r/.agents/skills/s{number}/SKILL.md"), text);
    }
    tree.write("/h/r/.git/HEAD", "x");
    tree.write("/h/r/AGENTS.md", "Use tabs.\n".repeat(5_000));
    tree.write("/h/r/sub/AGENTS.md", "Never reached.\n");
    tree.write("/h/r/CLAUDE.md", "@docs/a.md\n");
    tree.write("/h/r/docs/a.md", "text\n");
    let session = Session::new("/h/r", "/h");
    let report = explain(
        &tree,
        &session,
        &[
            convoke_vendors::edition("claude@2.1.197").unwrap(),
            convoke_vendors::edition("codex").unwrap(),
        ],
    );
    let view = View {
        report: &report,
        home: Path::new("/h"),
        installed: &Installed::default(),
        paint: if is_painted { Paint::Coloured } else { Paint::Plain },
        width,
        is_brief,
    };
    terminal::on_terminal(view.render().as_bytes())
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [40, 60, 80, 120] {
        for text in [false, true].map(|is_brief| rendered_as(width, false, is_brief)) {
            let widest = text.lines().map(UnicodeWidthStr::width).max();
            assert!(widest <= Some(width), "{widest:?} > {width}\n{text}");
        }
    }
}

#[test]
fn a_brief_report_fits_a_screen_and_counts_what_it_leaves_out() {
    let text = rendered_as(80, false, true);
    assert!(text.lines().count() < 24, "{text}");
    let cut = "  agents-md.truncated  Codex: ";
    assert!(
        text.contains(cut) && text.contains("`convoke explain --full` shows the fixes"),
        "{text}"
    );
}

#[test]
fn colour_changes_no_character_of_the_text() {
    let painted = rendered(80, true);
    let mut plain = String::new();
    let mut pieces = painted.split('\u{1b}');
    plain.push_str(pieces.next().unwrap());
    for piece in pieces {
        plain.push_str(piece.split_once('m').unwrap().1);
    }
    // Colours keep trailing blanks from being trimmed.
    let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    assert_eq!(trimmed(&plain), trimmed(&rendered(80, false)));
}

#[test]
fn what_is_cut_is_painted_as_a_warning_and_what_to_do_stands_out() {
    let painted = rendered(80, true);
    assert!(painted.contains("\u{1b}[33m✂ 1\u{1b}[0m"), "{painted}");
    assert!(painted.contains("\u{1b}[36m→ Raise project_doc_max_bytes"), "{painted}");
    assert!(painted.contains("\u{1b}[1;31m█"), "a full bar is red: {painted}");
}

#[test]
fn skills_are_shown_with_what_arrives_and_the_budget() {
    let text = rendered(80, false);
    for part in ["Skills  ", ".agents/skills/s100", "✂ ", "… and 84 more", "of 5,440 tokens"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("skill.description-cut"), "{text}");
}

#[test]
fn numbers_of_bytes_stay_short() {
    let cases = [
        (0, "0 B"),
        (9_999, "9,999 B"),
        (10_000, "9.7 KiB"),
        (32_768, "32.0 KiB"),
        (1_048_576, "1.0 MiB"),
        (4_194_304, "4.0 MiB"),
        (u64::MAX, "17592186044415.9 MiB"),
    ];
    for (count, expected) in cases {
        assert_eq!(bytes(count), expected);
    }
}

#[test]
fn long_texts_keep_their_end_or_their_beginning() {
    assert_eq!(shortened("a/very/long/path.md", 10), "…g/path.md");
    assert_eq!(shortened("short", 10), "short");
    assert_eq!(begun("a long reason", 8), "a long …");
    assert_eq!(shortened("世界世界", 5), "…世界");
}
