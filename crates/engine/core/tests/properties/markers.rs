//! Markers: `compat` is exactly the reference function; `preserve` changes only markers and the gaps that they
//! leave; markers count only outside code and quotations.

mod compat_reference;
mod preserve_reference;

use convoke_core::marker::{Scan, TextPolicy, scan, strip_all_markers};
use convoke_core::whitespace::is_space;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::hostile;

proptest! {
    #[test]
    fn compat_is_the_specifications_function(text in hostile::text()) {
        let expected = compat_reference::strip(&text);
        let scan = scan(&text, TextPolicy::Compat);
        prop_assert_eq!(&scan.text, &expected.text);
        prop_assert_eq!(&scan.task, &expected.task);
        prop_assert_eq!(&scan.from, &expected.from);
    }

    #[test]
    fn preserve_is_what_is_read_line_by_line(text in prop_oneof![hostile::text(), marked()]) {
        let expected = preserve_reference::clean(&text);
        let scan = scan(&text, TextPolicy::Preserve);
        prop_assert_eq!(&scan.text, &expected.text);
        prop_assert_eq!(&scan.task, &expected.task);
        prop_assert_eq!(&scan.from, &expected.from);
        let begins = |names: Vec<&str>, written: &[String]| {
            names.len() == written.len() && names.iter().zip(written).all(|(n, w)| w.starts_with(n))
        };
        let next = scan.next.iter().map(|route| route.name.as_str()).collect();
        prop_assert!(begins(next, &expected.next), "{:?}", expected.next);
        let drop = scan.drop.iter().map(String::as_str).collect();
        prop_assert!(begins(drop, &expected.drop), "{:?}", expected.drop);
    }

    #[test]
    fn cleaning_adds_nothing(text in hostile::text()) {
        let before = visible(&text);
        for policy in [TextPolicy::Preserve, TextPolicy::Compat] {
            let mut rest = before.iter();
            let after = visible(&strip_all_markers(&text, policy));
            prop_assert!(after.iter().all(|kept| rest.any(|c| c == kept)), "{:?}", policy);
        }
    }

    #[test]
    fn a_line_without_a_bracket_is_not_touched(text in hostile::text()) {
        // A block includes the lines below it.
        let text = without_blocks(&text);
        let cleaned = strip_all_markers(&text, TextPolicy::Preserve);
        let mut rest = cleaned.lines();
        for line in text.lines().filter(|line| !line.contains('[') && !is_blank(line)) {
            prop_assert!(rest.any(|kept| kept == line), "{:?} of {:?}", line, cleaned);
        }
    }

    #[test]
    fn what_is_fenced_quoted_or_in_inline_code_is_text(text in hostile::text()) {
        let fenced = format!("~~~~\n{}\n~~~~\n", text.replace('~', ""));
        let unclosed = format!("prose\n````\n{}", text.replace('`', ""));
        let quoted = format!("> {}", text.replace('\n', "\n > "));
        let one_line = text.replace(['\n', '`'], "");
        let inline = format!("see `` {one_line} `` and");
        let without_ends = text.replace(['>', '~'], "");
        let in_item = format!("1. ~~~\n   {}\n   ~~~\n", without_ends.replace('\n', "\n   "));
        let quoted_in_item = format!("- > {}", text.replace('\n', "\n  > "));
        let pre = format!("<pre>\n{without_ends}\n</pre>");
        let comment = format!("a\n\n<!-- {without_ends} -->");
        let html = [in_item, quoted_in_item, pre, comment];
        for protected in [fenced, unclosed, quoted, inline].into_iter().chain(html) {
            let expected = Scan { text: protected.as_str().into(), ..Scan::default() };
            prop_assert_eq!(scan(&protected, TextPolicy::Preserve), expected);
        }
    }

    #[test]
    fn whole_markers_are_removed_once_and_for_all(document in document()) {
        let first = scan(&document, TextPolicy::Preserve);
        let second = scan(&first.text, TextPolicy::Preserve);
        let nothing_said = Scan { text: first.text.clone(), ..Scan::default() };
        prop_assert_eq!(second, nothing_said);
        prop_assert!(!first.text.contains('['));
        let without = MARKERS.iter().fold(document.clone(), |text, (m, _)| text.replace(m, ""));
        prop_assert_eq!(visible(&first.text), visible(&without));
    }

    #[test]
    fn routes_are_read_in_the_order_of_the_text(document in document()) {
        let mut said: Vec<(usize, &str)> = MARKERS
            .iter()
            .filter_map(|&(marker, next)| Some((marker, next?)))
            .flat_map(|(marker, next)| document.match_indices(marker).map(move |(at, _)| (at, next)))
            .collect();
        said.sort_unstable();
        for policy in [TextPolicy::Preserve, TextPolicy::Compat] {
            let scan = scan(&document, policy);
            let next = scan.next.iter().map(|route| route.name.as_str());
            prop_assert!(next.eq(said.iter().map(|&(_, name)| name)), "{:?}", policy);
        }
    }
}

/// The characters of a text that are not white space.
fn visible(text: &str) -> Vec<char> {
    text.chars().filter(|&c| !is_space(c)).collect()
}

/// Whole markers, with the member that each calls.
const MARKERS: &[(&str, Option<&str>)] = &[
    ("[NEXT: max]", Some("max")),
    ("[next:李雷！P3]", Some("李雷")),
    ("[NEXT: ]", None),
    ("[FROM: kailai]", None),
    ("[DROP: all]", None),
    ("[TEAM_TASK: ship]", None),
];

/// Markers, whole and broken, with everything that affects them: white space, lines, code and quotations.
fn marked() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        4 => select(&["[NEXT: max]", "[FROM: a]", "[DROP: b]", "[TEAM_TASK: c]", "[TEAM_TASK]"][..]),
        2 => select(&["[NEXT: ", "[DROP:", "[NEXT:]", "[", "]", "a[0]"][..]),
        2 => select(&["`[NEXT: no]`", "`", "``", "```", "~~~", "> ", "    "][..]),
        2 => select(&["- ", "1. ", "* ", "+\t", "12) ", "-", "\n- ```\n  ", "\n  ", "\n    "][..]),
        2 => select(&["<pre>", "</pre>", "<!--", "-->", "<PRE ", "<", "* * *"][..]),
        3 => select(&["word", "é", "安全"][..]),
        3 => select(&[" ", "  ", "\t", "\u{3000}"][..]),
        4 => select(&["\n", "\n\n", "\r\n", "\r"][..]),
    ];
    vec(token, 0..16).prop_map(|tokens| tokens.concat())
}

/// Lines of words and whole markers, without other brackets or code marks.
fn document() -> impl Strategy<Value = String> {
    let markers: Vec<&str> = MARKERS.iter().map(|(marker, _)| *marker).collect();
    let token = prop_oneof![
        3 => select(&["word ", "wé ", "w安全 ", "👩\u{200D}👧", "$&"][..]),
        2 => select(markers),
        2 => select(&[" ", "  ", "\t", "\u{3000}", "\u{FEFF}", "\n", "\r\n", "\n\n", "\n    "][..]),
    ];
    vec(token, 0..24).prop_map(|tokens| tokens.concat())
}

fn without_blocks(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut kept = String::new();
    let mut from = 0;
    for (at, block) in lower.match_indices("[team_task]") {
        kept.push_str(&text[from..at]);
        from = at + block.len();
    }
    kept.push_str(&text[from..]);
    // Removing one block may have created another from the text around it.
    if kept.len() < text.len() { without_blocks(&kept) } else { kept }
}

fn is_blank(line: &str) -> bool {
    line.chars().all(is_space)
}
