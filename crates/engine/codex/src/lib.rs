//! Codex's own files, as Codex reads them: [`config`] merges the layers of `config.toml` and checks
//! them, [`project_doc`] finds the `AGENTS.md` documents of a directory, [`skills`] its skills.
//!
//! `convoke-thread` builds requests from them, and `convoke-explain` reports them; neither depends on the
//! other. The crate is synchronous, reads no environment, and accesses files only through
//! [`convoke_files::Files`].

pub mod config;
pub mod diagnostics;
pub mod project_doc;
pub mod skills;
