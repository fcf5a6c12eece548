//! The shell of the page and its files, embedded. They hold no data, so they need no token.

use std::sync::{Arc, LazyLock};

use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use convoke_session::AnyStore;
use maud::{DOCTYPE, Markup, html};
use sha2::{Digest as _, Sha256};

use crate::App;

/// The files: name, type, content.
const FILES: [(&str, &str, &str); 11] = [
    ("style.css", "text/css; charset=utf-8", include_str!("../assets/style.css")),
    ("app.js", "text/javascript; charset=utf-8", include_str!("../assets/app.js")),
    ("api.js", "text/javascript; charset=utf-8", include_str!("../assets/api.js")),
    (
        "conversation.js",
        "text/javascript; charset=utf-8",
        include_str!("../assets/conversation.js"),
    ),
    ("actions.js", "text/javascript; charset=utf-8", include_str!("../assets/actions.js")),
    ("given.js", "text/javascript; charset=utf-8", include_str!("../assets/given.js")),
    ("chunks.js", "text/javascript; charset=utf-8", include_str!("../assets/chunks.js")),
    ("keys.js", "text/javascript; charset=utf-8", include_str!("../assets/keys.js")),
    ("workbench.js", "text/javascript; charset=utf-8", include_str!("../assets/workbench.js")),
    ("programs.js", "text/javascript; charset=utf-8", include_str!("../assets/programs.js")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];

/// The style sheet, for standalone documents.
pub(crate) const STYLE: &str = FILES[0].2;

/// The hash of all files, which is part of their addresses: a new version is never mixed with an old one.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for (name, _, content) in FILES {
        hash.update(name);
        hash.update(content);
    }
    let hash = hash.finalize();
    let first: [u8; 8] = std::array::from_fn(|at| hash[at]);
    format!("{:016x}", u64::from_be_bytes(first))
});

/// Returns the shell: a page that loads its view with the token.
pub(crate) async fn shell(State(app): State<Arc<App>>) -> Page {
    let is_shared = matches!(app.store, AnyStore::Postgres(_));
    let asset = |name: &str| format!("/assets/{}/{name}", *VERSION);
    Page(html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Convoke" }
                link rel="icon" href=(asset("icon.svg"));
                link rel="stylesheet" href=(asset("style.css"));
                script type="module" src=(asset("app.js")) {}
            }
            body {
                a.skip href="#view" { "Skip to the content" }
                header.site {
                    a.home href="/" { "Convoke" }
                    nav aria-label="Page" { a href="/" { "Sessions" } a href="/usage" { "Usage" } a href="/explain" { "Explain" } @if is_shared { a href="/nodes" { "Nodes" } } }
                    span #connection role="status" {}
                    button.quiet #copy-link type="button" title="Copy the address of this view" { "Copy link" }
                    button.quiet #json type="button" title="Save the data of this view" { "JSON" }
                    button.quiet #theme type="button" { "Theme" }
                    button.quiet #keys type="button" aria-label="Keys" title="Keys (?)" { "?" }
                }
                main #view tabindex="-1" { noscript { p { "This page needs JavaScript. " code { "convoke sessions export --html" } " writes a static page." } } }
                div #message role="status" aria-live="polite" {}
                dialog #help aria-labelledby="help-title" {
                    form method="dialog" {
                        h2 #help-title { "Keys" }
                        dl.keys {
                            dt { kbd { "j" } " " kbd { "k" } } dd { "the next and the previous row of a list" }
                            dt { kbd { "Enter" } } dd { "opens the row, or sends the message" }
                            dt { kbd { "/" } } dd { "searches" }
                            dt { kbd { "←" } " " kbd { "→" } } dd { "move the border between two panes, Enter folds one" }
                            dt { kbd { "?" } } dd { "shows this" }
                        }
                        p.actions { button { "Close" } }
                    }
                }
                dialog #dialog aria-labelledby="dialog-title" {
                    form method="dialog" {
                        p #dialog-title {}
                        pre #dialog-text hidden {}
                        input #dialog-input autocomplete="off" aria-labelledby="dialog-title" hidden;
                        p.actions { button.primary value="yes" { "OK" } button value="" formnovalidate { "Cancel" } }
                    }
                }
            }
        }
    })
}

/// A page.
pub(crate) struct Page(Markup);

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let headers = [(CONTENT_TYPE, "text/html; charset=utf-8"), (CACHE_CONTROL, "no-cache")];
        (headers, self.0.into_string()).into_response()
    }
}

/// Returns a file.
pub(crate) async fn asset(Path((version, name)): Path<(String, String)>) -> Response {
    let found = FILES.iter().find(|(file, ..)| *file == name).filter(|_| version == *VERSION);
    let Some((_, kind, content)) = found else { return StatusCode::NOT_FOUND.into_response() };
    let headers: [(HeaderName, &str); 2] =
        [(CONTENT_TYPE, kind), (CACHE_CONTROL, "max-age=31536000, immutable")];
    (headers, *content).into_response()
}
