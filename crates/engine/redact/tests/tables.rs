//! Texts with secrets, and texts that only look like it.

use std::borrow::Cow;
use std::ffi::OsString;

use convoke_redact::Redactor;

fn env(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

/// Returns a body that looks random, always the same.
fn body(length: usize) -> String {
    let alphabet = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let [first, ..] = state.to_le_bytes();
        char::from(alphabet[usize::from(first) % alphabet.len()])
    };
    (0..length).map(|_| next()).collect()
}

fn hex(length: usize) -> String {
    "9c1185a5c5e9fc54612808977ee8f548b2258d31".chars().cycle().take(length).collect()
}

#[test]
fn the_formats_of_keys_are_found() {
    let mixed = "a1B2".repeat(10);
    let keys = [
        format!("sk-{}", body(48)),
        format!("sk-{mixed}"),
        format!("sk-{}", hex(32)),
        format!("sk-proj-{}_{}-{}", body(40), body(30), body(30)),
        format!("sk-ant-api03-{}-{}AA", body(50), body(42)),
        format!("sk-or-v1-{}", hex(64)),
        "sk-lf-7ab6c3fe-5acd-4c1d-9f3e-0a1b2c3d4e5f".to_owned(),
        format!("sk_live_{}", body(24)),
        format!("sk_test_{}", body(24)),
        format!("sk_test_51{}", body(97)),
        format!("rk_live_{}", body(24)),
        format!("rk_test_{}", body(24)),
        format!("whsec_{}", body(32)),
        format!("xai-{}", body(80)),
        format!("gsk_{}", body(52)),
        format!("pplx-{}", body(48)),
        format!("nvapi-{}", body(64)),
        format!("hf_{}", body(34)),
        format!("r8_{}", body(37)),
        format!("ghp_{}", body(36)),
        format!("ghp_{mixed}"),
        format!("gho_{}", body(36)),
        format!("ghu_{}", body(36)),
        format!("ghs_{}", body(36)),
        format!("ghr_{}", body(36)),
        format!("github_pat_{}_{}", body(22), body(59)),
        format!("glpat-{}", body(20)),
        "glpat-cFZjIjjcbLT_8tmPjwwt".to_owned(),
        "glpat-F_ZKByB-DSSdDJccNsqs".to_owned(),
        "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".to_owned(),
        "dckr_pat_J-JzUOTjw-OdQPNWlzO7-XpczBz".to_owned(),
        "whsec_81lnnm1/8kVif/Wxci9zp5HnEtMIl+D8".to_owned(),
        "hf_qWzRtPlKjHgFdSxCvBnMeYuIoAaBcDeFgH".to_owned(),
        format!("glrt-{}", body(20)),
        format!("npm_{}", body(36)),
        format!("pypi-AgEIcHlwaS5vcmc{}-{}_{}", body(60), body(40), body(30)),
        format!("dckr_pat_{}", body(27)),
        format!("xoxb-123456789012-1234567890123-{}", body(24)),
        format!("xoxp-123456789012-123456789012-123456789012-{}", hex(32)),
        format!("xapp-1-A0123456789-1234567890123-{}", hex(64)),
        "AKIAIOSFODNN7QWERTYU".to_owned(),
        "ASIAIOSFODNN7QWERTYU".to_owned(),
        format!("AIza{}", body(35)),
        format!("ya29.{}", body(60)),
        format!("GOCSPX-{}", body(28)),
        format!("dop_v1_{}", hex(64)),
        format!("dapi{}", hex(32)),
        format!("hvs.{}", body(90)),
        format!("SG.{}.{}", body(22), body(43)),
        format!("shpat_{}", hex(32)),
        format!("eyJ{}.eyJ{}.{}", body(30), body(60), body(43)),
        format!("AGE-SECRET-KEY-1{}", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L".repeat(2)),
        format!("glsa_{}_{}", body(32), hex(8)),
        format!("sntryu_{}", hex(64)),
    ];
    let redactor = Redactor::default();
    for key in &keys {
        for (before, after) in [
            ("", ""),
            ("key ", "."),
            ("KEY=", "\n"),
            ("\"", "\","),
            ("(", ")"),
            ("`", "`"),
            ("{\\\"k\\\":\\\"", "\\\"}"),
            ("line\\n", "\\nline"),
            ("?key=", "&x=1"),
            ("q%3D", "%26x"),
        ] {
            let text = format!("{before}{key}{after}");
            assert_eq!(redactor.redact(&text), format!("{before}[redacted]{after}"), "{text}");
        }
    }
}

#[test]
fn values_are_found_by_their_names() {
    let redactor = Redactor::default();
    let secret = "wJalrXUtnFEMIK7MDENGbPxRfiCY+/EXAMPLE2KEY".get(..40).unwrap();
    for (before, after) in [
        ("aws_secret_access_key = ", "\n"),
        ("export AWS_SECRET_ACCESS_KEY=", ""),
        ("\"SecretAccessKey\": \"", "\""),
        ("{\\\"secretAccessKey\\\":\\\"", "\\\"}"),
    ] {
        let text = format!("{before}{secret}{after}");
        assert_eq!(redactor.redact(&text), format!("{before}[redacted]{after}"));
    }
    let token = body(40);
    let header = format!("-H 'Authorization: Bearer {token}'");
    assert_eq!(redactor.redact(&header), "-H 'Authorization: Bearer [redacted]'");
    assert_eq!(
        redactor.redact("Authorization: Basic dXNlcjpwYXNzd29yZDEyMw=="),
        "Authorization: Basic [redacted]"
    );
    assert_eq!(
        redactor.redact(&format!("AccountKey={}==;Endpoint", body(86))),
        "AccountKey=[redacted];Endpoint"
    );
}

#[test]
fn passwords_are_taken_out_of_urls() {
    let redactor = Redactor::default();
    for (text, clean) in [
        (
            "postgres://admin:hunter2@db.internal:5432/app",
            "postgres://admin:[redacted]@db.internal:5432/app",
        ),
        ("redis://:s3cr3t@cache", "redis://:[redacted]@cache"),
        ("https://u:p%40ss@example.com/x@y", "https://u:[redacted]@example.com/x@y"),
        ("amqp://u:p@ss@host", "amqp://u:[redacted]@host"),
        (
            "{\"url\":\"mongodb:\\/\\/u:pw@a:1,b:2\\/db\"}",
            "{\"url\":\"mongodb:\\/\\/u:[redacted]@a:1,b:2\\/db\"}",
        ),
        (
            "git clone https://me:tok@host/r.git and mail me@host",
            "git clone https://me:[redacted]@host/r.git and mail me@host",
        ),
    ] {
        assert_eq!(redactor.redact(text), clean);
    }
    for text in [
        "http://localhost:8080/me@host",
        "http://localhost:8080 me@host",
        "ssh://git@github.com:22/a",
        "https://example.com/a:b@c",
        "postgres://user:$PASSWORD@host",
        "postgres://user:${PASSWORD}@host",
        "postgres://user:<password>@host",
        "postgres://user:{password}@host",
        "postgres://user:[redacted]@host",
        "postgres://user:@host",
        "postgres://user:password@host/db",
        "https://USER:YOUR_PASSWORD@host",
        "https://user:***@example.com",
        "https://user:xxxxx@host",
        "https://user:%s@host",
        "docker://alpine:3.19@sha256:0123456789abcdef",
        "see http://[::1]:80, or mail me@host",
    ] {
        assert_eq!(redactor.redact(text), text);
    }
}

#[test]
fn words_and_names_are_left_alone() {
    let redactor = Redactor::default();
    for text in [
        "sk-spinner-pulse-animation-container",
        "sk-learn-pipeline-standard-scaler-example-v2",
        ".sk-cube-grid .sk-cube-scale-delay-transition { }",
        "sk-circle-fade-dot-12345678 sk-folding-cube-2024-01-15",
        "sk-getUserByIdFromDatabaseOrCache",
        "hf_hub_download_with_retries_and_backoff_until_done",
        "hf_transfer_enabled_for_all_repositories_everywhere",
        "a task-list of sk-items, task-a1B2a1B2a1B2a1B2a1B2a1B2",
        "npm_config_cache_directory_location_for_every_user",
        "npm_package_dependencies_internationalization",
        "gsk_model_configuration_with_long_variable_names",
        "xai-explainability-toolkit-for-large-language-models",
        "pypi-package-index-mirror-with-a-very-long-name-indeed",
        "sk_test_mode_enabled_for_everyone_in_the_team",
        "sk_live_stream_configuration",
        "sk_test_configuration2",
        "glpat-personal-access-token-documentation",
        "github_pat_fine_grained_tokens_are_described_in_the_docs",
        "xoxb-bot-token-placeholder-for-documentation",
        "ghp_your_token_here and ghp_XXXX",
        "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 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",
        "gsk_createRenderNodeFromSurfaceAndMatrixWithClip",
        "npm_packageLockfileVersionResolverForWorkspaces",
        "pul-requestTemplateConfigurationForAllRepositories",
        "shpat_shopifyAdminAccessTokenDocumentationPage",
        "AIzaSyDocumentationExampleOfAnApiKeyName",
        "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx sk-00000000000000000000000000000000",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx glpat-xxxxxxxxxxxxxxxxxxxx",
        "xoxb-xxxxxxxxxxxx-xxxxxxxxxxxx-xxxxxxxxxxxxxxxxxxxxxxxx",
        "AKIAAAAAAAAAAAAAAAAA ASIAPACIFICREGIONSSS ACCADEMIADELLACRUSCA",
        "a Basic AuthenticationProviderForEveryone of the Basic understanding",
        "AKIA is how an id begins; AKIAS, AKIALONGERTHANSIXTEENLETTERS",
        "the Bearer authentication-scheme-of-the-server is described there",
        "Authorization: Bearer $TOKEN",
        "SG.configuration.of.the.mail.service.for.everybody.who.asks.for.it",
        "eyJ is how base64 of JSON begins: eyJmb28iOiJiYXIiLCJiYXoiOjEyMzQ1Njc4OTB9",
        "dapi, hvs.something, whsec_of_the_webhook_documentation",
        "9c1185a5c5e9fc54612808977ee8f548b2258d31 is a commit",
        "7ab6c3fe-5acd-4c1d-9f3e-0a1b2c3d4e5f is a session",
        "secret_access_key: see the docs of the identity service",
        "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        "https://example.com/sk-something/path-to-somewhere-else?x=1#frag",
        "...........................................................",
        "sk-....................................................",
    ] {
        assert_eq!(redactor.redact(text), text);
        let shouted = text.to_ascii_uppercase();
        assert_eq!(redactor.redact(&shouted), shouted);
    }
}

#[test]
fn values_of_secret_variables_are_removed_wherever_they_stand() {
    let redactor = Redactor::for_env(&env(&[
        ("MY_API_KEY", "correct-horse"),
        ("HOME", "/home/somebody"),
        ("DB_PASSWORD", "short"),
        ("OLD_TOKEN", "[redacted]"),
        ("NO_TOKEN", "redacted"),
    ]));
    assert_eq!(
        redactor.redact("at /home/somebody: correct-horse, short, redacted"),
        "at /home/somebody: [redacted], short, redacted"
    );
}

#[test]
fn a_known_value_is_found_in_its_spellings() {
    let redactor = Redactor::for_env(&env(&[("A_TOKEN", "corr\"ect\\horse/b ttery?é")]));
    for (text, clean) in [
        ("corr\"ect\\horse/b ttery?é", "[redacted]"),
        (r#"{"k":"corr\"ect\\horse/b ttery?é"}"#, r#"{"k":"[redacted]"}"#),
        (r#"{"k":"corr\"ect\\horse\/b ttery?\u00e9"}"#, r#"{"k":"[redacted]"}"#),
        (r#""{\"k\":\"corr\\\"ect\\\\horse/b ttery?é\"}""#, r#""{\"k\":\"[redacted]\"}""#),
        ("?k=corr%22ect%5Chorse%2Fb%20ttery%3F%C3%A9&", "?k=[redacted]&"),
        ("?k=corr%22ect%5chorse%2fb+ttery%3f%c3%a9&", "?k=[redacted]&"),
        ("636f7272226563745c686f7273652f622074746572793fc3a9", "[redacted]"),
        ("636F7272226563745C686F7273652F622074746572793FC3A9", "[redacted]"),
        ("Y29yciJlY3RcaG9yc2UvYiB0dGVyeT/DqQ==.", "[redacted]."),
        ("Y29yciJlY3RcaG9yc2UvYiB0dGVyeT_DqQ.", "[redacted]."),
    ] {
        assert_eq!(redactor.redact(text), clean);
        assert_eq!(redactor.redact_known(text), clean);
    }
    for text in [
        // Nested in JSON at every depth, in other escapes, and mixed.
        r#"corr\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\"ect\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\horse/b ttery?é"#,
        r#"corr\\\"ect\\\\horse\u002Fb ttery?\\u00E9"#,
        r"corr\u0022ect\u005chorse\u002fb\u0020ttery\u003f\u00e9",
        r"corr\x22ect\x5chorse\x2fb\x20ttery\x3f\xc3\xa9",
        // Percent-encoding in both cases, of every byte, and twice.
        "corr%22ect%5chorse%2Fb%20ttery%3f%C3%a9",
        "%63%6F%72%72%22%65%63%74%5C%68%6F%72%73%65%2F%62%20%74%74%65%72%79%3F%C3%A9",
        "corr%2522ect%255Chorse%252Fb%2520ttery%253F%25C3%25A9",
        // Hexadecimal of both cases, and with separators.
        "636F7272226563745c686f7273652F622074746572793fC3A9",
        "63 6f 72 72 22 65 63 74 5c 68 6f 72 73 65 2f 62\n20 74 74 65 72 79 3f c3 a9",
        "63:6f:72:72:22:65:63:74:5c:68:6f:72:73:65:2f:62:20:74:74:65:72:79:3f:c3:a9",
        "63-6f-72-72-22-65-63-74-5c-68-6f-72-73-65-2f-62-20-74-74-65-72-79-3f-c3-a9",
        "0x63, 0x6f, 0x72, 0x72, 0x22, 0x65, 0x63, 0x74, 0x5c, 0x68, 0x6f, 0x72, 0x73, 0x65, 0x2f, 0x62, 0x20, 0x74, 0x74, 0x65, 0x72, 0x79, 0x3f, 0xc3, 0xa9",
        "0x63,0x6F,0x72,0x72,0x22,0x65,0x63,0x74,0x5C,0x68,0x6F,0x72,0x73,0x65,0x2F,0x62,0x20,0x74,0x74,0x65,0x72,0x79,0x3F,0xC3,0xA9",
        // Base64 in lines, plain and in JSON, and in a URL.
        "Y29yciJlY3RcaG9y\nc2UvYiB0dGVyeT/D\nqQ==",
        "Y29yciJlY3RcaG9y\\r\\nc2UvYiB0dGVyeT/DqQ==",
        "Y29yciJlY3RcaG9yc2UvYiB0dGVyeT%2FDqQ%3D%3D",
    ] {
        assert_eq!(redactor.redact_known(text), "[redacted]", "{text}");
        let mut stream = redactor.stream();
        let mut shown: String =
            text.chars().map(|c| stream.push(&c.to_string()).into_owned()).collect();
        shown += &stream.finish();
        assert_eq!(shown, "[redacted]", "{text}");
    }
    // With `user:` before the value, and more after it.
    let basic = "Basic dXNlcjpjb3JyImVjdFxob3JzZS9iIHR0ZXJ5P8OpOm1vcmU=";
    let clean = redactor.redact(basic);
    assert!(
        clean.contains("[redacted]") && !clean.contains("b3JyImVjdFxob3JzZS9iIHR0ZXJ5"),
        "{clean}"
    );
}

#[test]
fn a_short_key_is_removed_where_it_is_a_word_and_a_placeholder_is_not() {
    let redacted =
        |key: &str, text: &str| Redactor::default().and_key(key).redact(text).into_owned();
    assert_eq!(
        redacted("hunter2", "is it hunter2? {\"k\":\"hunter2\"}"),
        "is it [redacted]? {\"k\":\"[redacted]\"}"
    );
    assert_eq!(redacted("pass", "pass a password:\\npass"), "[redacted] a password:\\n[redacted]");
    assert_eq!(redacted("a\"b\\c1", "{\"x\":\"a\\\"b\\\\c1\"}"), "{\"x\":\"[redacted]\"}");
    for key in ["x", "abc", "none", "ollama", "EMPTY"] {
        let text = format!("the key is {key}");
        assert_eq!(redacted(key, &text), text);
    }
}

#[test]
fn a_private_key_is_removed_to_its_end_and_its_title_alone_is_none() {
    let redactor = Redactor::default();
    let line = "a1B2+/c3".repeat(8);
    let title = "-----BEGIN RSA PRIVATE KEY-----";
    let end = "-----END RSA PRIVATE KEY-----";
    for (text, clean) in [
        (format!("it looks for `{title}`.\n\nIt misses EC keys\n[NEXT: you]"), None),
        (format!("{title}\n\nThe title stands alone.\n"), None),
        (format!("between {title} and {end} there is base64"), None),
        (format!("{title}\n{end}"), None),
        (format!("{title}\n...\n{end}\n"), None),
        (format!("{title}\nYes\n\nIt misses EC keys"), None),
        (
            "-----BEGIN CERTIFICATE-----\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
                .to_owned(),
            None,
        ),
        (format!("{title}\n{line}\n{line}\nAb1=\n{end}\nover"), Some("[redacted]\nover")),
        (format!("{title}\r\n{line}\r\nAb1=\r\n{end}\r\nover"), Some("[redacted]\r\nover")),
        (format!("{title}\nMIIEabc\n{end} over"), Some("[redacted] over")),
        (
            format!("{title}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n{line}\n{end}"),
            Some("[redacted]"),
        ),
        (
            format!(
                "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 2\n\n{line}\n=Ab1c\n-----END PGP PRIVATE KEY BLOCK-----\nover"
            ),
            Some("[redacted]\nover"),
        ),
        (
            format!("{title}\n{line}\n{line}\n\nNo end. [NEXT: you]"),
            Some("[redacted]\n\nNo end. [NEXT: you]"),
        ),
        (format!("{title}\n{line}\n[NEXT: you]"), Some("[redacted]\n[NEXT: you]")),
        (format!("> {title}\n> {line}\n> {end}\nover"), Some("> [redacted]\nover")),
        (format!(" 1\t{title}\n 2\t{line}\n 3\t{line}\n"), Some(" 1\t[redacted]")),
        (format!("1→{title}\n2→{line}\n3→{end}\n"), Some("1→[redacted]\n")),
        (
            format!("{{\"k\":\"{title}\\n{line}\\n{end}\\n\",\"a\":1}}"),
            Some("{\"k\":\"[redacted]\\n\",\"a\":1}"),
        ),
        (format!("K='{title} {line} {line} {end}'"), Some("K='[redacted]'")),
        (
            format!("{title}\n{line}\n{end}\n{title}\n{line}\n{end}\n"),
            Some("[redacted]\n[redacted]\n"),
        ),
        (format!("{title}\n{title}\n{line}\n{end}\n"), None),
    ] {
        let clean = match clean {
            // The title of a key that follows another title is not removed with it.
            None if text.contains(&line) && text.starts_with(title) => {
                &format!("{title}\n[redacted]\n")
            }
            None => text.as_str(),
            Some(clean) => clean,
        };
        assert_eq!(redactor.redact(&text), clean, "{text}");
    }
}

#[test]
fn any_text_may_follow_the_beginning_of_a_title() {
    for text in ["é".repeat(40), format!("x{}", "é".repeat(40))] {
        let text = format!("-----BEGIN {text}");
        assert_eq!(Redactor::default().redact(&text), text);
    }
}

#[test]
fn a_text_without_secrets_is_not_copied() {
    assert!(matches!(Redactor::default().redact("nothing to see"), Cow::Borrowed(_)));
}

#[test]
fn a_redactor_never_shows_what_it_knows() {
    let redactor = Redactor::for_env(&env(&[("A_TOKEN", "correct-horse")]));
    assert!(!format!("{redactor:?} {:?}", redactor.stream()).contains("correct"));
}

#[test]
fn places_are_counted() {
    let mut text = format!("sk-{0} and sk-{0}", body(40));
    assert_eq!(Redactor::default().redact_in_place(&mut text), 2);
    assert_eq!(text, "[redacted] and [redacted]");
    assert_eq!(Redactor::default().redact_in_place(&mut text), 0);
}
