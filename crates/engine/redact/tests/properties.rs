//! Properties of redaction, on texts made of parts of secrets.

use std::sync::LazyLock;

use convoke_redact::Redactor;
use proptest::prelude::*;

const VALUES: [&str; 6] = [
    "correct-horse-battery",
    "horse-battery/staple",
    "ünïcödé-secret",
    "quo\"ted\\secret",
    "aaaaaaaa",
    "pass",
];

/// Starts, bodies and ends of secrets, and text around them.
const PARTS: &[&str] = &[
    "sk-",
    "sk-ant-",
    "ghp_",
    "glpat-",
    "xoxb-",
    "eyJ",
    "AKIA",
    "AIza",
    "Bearer ",
    "SG.",
    "hf_",
    "secret_access_key",
    "a1B2c3D4e5F6g7H8",
    "IOSFODNN7QWERTYU",
    "spinner-pulse",
    "0123456789",
    "://",
    "user:",
    "p@ss",
    "@",
    "/",
    ":",
    "correct-horse-",
    "battery",
    "/staple",
    "horse-",
    "pass",
    "word",
    "ünïcödé",
    "-secret",
    "quo\\\"ted\\\\secret",
    "quo\"ted",
    "\\secret",
    "aaaaaaaa",
    "aaa",
    "é",
    "世",
    "-----BEGIN ",
    "RSA PRIVATE KEY",
    "-----",
    "-----END ",
    "MIIEowIBAAKCAQEA7fK2mQ9xR4tV1bN8MIIEowIBAAKCAQEA",
    "MIIEowIBAAKCAQEA7f",
    "Ab1=",
    "Proc-Type: 4",
    "\n",
    "\\n",
    "\\",
    "\\/",
    "> ",
    "→",
    " ",
    ".",
    "..",
    "-",
    "_",
    "=",
    "\"",
    "[redacted]",
];

static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| {
    VALUES.iter().fold(Redactor::default(), |redactor, value| redactor.and_key(value))
});

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PARTS), 0..40).prop_map(|parts| parts.concat())
}

/// Splits a text at positions derived from these numbers.
fn pieces<'t>(text: &'t str, sizes: &[usize]) -> Vec<&'t str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, left) = rest.split_at(rest.ceil_char_boundary(*size));
        pieces.push(piece);
        rest = left;
    }
    pieces
}

fn in_pieces(redactor: &Redactor, pieces: &[&str]) -> String {
    let mut stream = redactor.stream();
    let mut shown: String = pieces.iter().map(|piece| stream.push(piece).into_owned()).collect();
    shown.push_str(&stream.finish());
    shown
}

proptest! {
    #[test]
    fn a_text_in_pieces_gives_what_the_whole_gives(text in text(), sizes in prop::collection::vec(1_usize..40, 1..8)) {
        prop_assert_eq!(in_pieces(&REDACTOR, &pieces(&text, &sizes)), REDACTOR.redact(&text));
    }

    #[test]
    fn any_text_in_pieces_gives_what_the_whole_gives(text: String, sizes in prop::collection::vec(1_usize..9, 1..8)) {
        prop_assert_eq!(in_pieces(&REDACTOR, &pieces(&text, &sizes)), REDACTOR.redact(&text));
    }

    #[test]
    fn the_result_holds_no_known_value(text in text()) {
        for value in VALUES.iter().filter(|value| value.len() >= 8) {
            prop_assert!(!REDACTOR.redact(&text).contains(value));
            prop_assert!(!REDACTOR.redact_known(&text).contains(value));
        }
    }

    #[test]
    fn no_spelling_of_any_value_stays(value in "[ -~é世]{8,40}", before in "[ -~]{0,20}", after in "[ -~]{0,20}") {
        prop_assume!(!value.contains("redacted") && !"[redacted]".contains(&value));
        let redactor = Redactor::default().and_key(&value);
        let json = serde_json::json!({ "k": format!("{before}{value}{after}") }).to_string();
        let twice = serde_json::json!({ "j": json }).to_string();
        for (text, spelling) in [
            (format!("{before}{value}{after}"), value.clone()),
            (json, escaped(&value)),
            (twice, escaped(&escaped(&value))),
        ] {
            prop_assert!(!redactor.redact(&text).contains(&spelling), "{}", text);
        }
    }
}

fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[test]
fn wherever_a_text_is_cut_it_comes_out_as_if_it_had_come_whole() {
    let body = "a1B2".repeat(16);
    let texts = [
        "the key is correct-horse-battery, or not".to_owned(),
        "correct-horse-battery/staple and correct-horse-batterie".to_owned(),
        "pass the password to bypass pass, and then pass".to_owned(),
        "an ünïcödé-secret and an ünïcödé-secre".to_owned(),
        format!("key sk-{body}. And sk-short, task-{body}, _sk-{body}"),
        format!("ask-{body} s sk sk- sk-{body}correct-horse-battery/x"),
        format!("eyJ{body}{body}.{body}…"),
        format!("ya29.{body} ----- -----BEGIN nothing -----BEGIN {}", "é".repeat(60)),
        format!("a -----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\nb"),
        format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIV"),
        format!("-----BEGIN PRIVATE KEY-----\n{body}\n{body}\nAb1=\n-----END PRIVATE KEY-----."),
        format!("-----BEGIN PRIVATE KEY-----\n{body}\n\nIt misses EC keys.\n[NEXT: you]"),
        format!("{{\"k\":\"-----BEGIN PRIVATE KEY-----\\n{body}\\n{body}\\n\",\"a\":1}}"),
        "`-----BEGIN RSA PRIVATE KEY-----`.\n\nIt misses EC keys\n[NEXT: you]".to_owned(),
        "-----BEGIN RSA PRIVATE KEY-----\nYes\n\nIt misses EC keys".to_owned(),
        format!("sk-{body}horse-battery/staple, sk-{body}horse-battery/stapler"),
        "postgres://admin:p@ss@db:5432/x http://a:8080".to_owned(),
        "-----BEGIN PRIVATE K".to_owned(),
    ];
    let redactor = &REDACTOR;
    for text in &texts {
        let whole = redactor.redact(text);
        for (cut, _) in text.char_indices() {
            let shown = in_pieces(redactor, &[&text[..cut], &text[cut..]]);
            assert_eq!(shown, whole, "{text} at {cut}");
        }
        for size in 1..9 {
            let shown = in_pieces(redactor, &pieces(text, &[size]));
            assert_eq!(shown, whole, "{text} by {size}");
        }
    }
}
