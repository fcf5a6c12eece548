//! The real CLIs, at pinned versions, against the rehearsal server.
//!
//! `scripts/install-clis` installs them into `CONVOKE_CLIS` (by default `target/clis`). The tests of a missing
//! CLI are reported as skipped; with `CI=true` they fail. Each CLI runs in its own home, and the server is also
//! its proxy, so that all other requests are recorded.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

/// One test of each kind for each CLI.
macro_rules! for_each_cli {
    ($($module:ident: $cli:expr => [$($check:ident),*];)*) => {
        $(mod $module {
            use super::*;
            $(#[tokio::test]
            async fn $check() {
                super::$check($cli).await;
            })*
        })*
    };
}

mod answers;
mod asking;
mod delivery;
mod ending;
mod faults;
mod images;
mod project;
mod provider_answer;
mod reading_back;
mod sandbox;
mod test_host;
mod tools;

use answers::*;
use delivery::*;
use ending::*;
use faults::*;
use images::*;
use project::*;
use reading_back::*;
use test_host::Cli;
use tools::*;

for_each_cli! {
    claude_197: Cli::Claude197 => [writes_sessions_that_are_read_back, ends_its_turns_as_the_model_ends_its_answers, shows_an_image_to_its_model,
        runs_nothing_that_git_is_told_to, delivers_byte_for_byte, never_reads_a_file_that_is_named,
        runs_nothing_that_an_untrusted_project_brings, runs_a_tool, edits_a_file, reads_without_permission_to_write, tells_failures_apart, cancels_without_a_trace, ends_when_convoke_is_killed, resumes_its_session,
        tells_errors_of_the_server_and_limits_requests,
        ends_when_the_server_answers_garbage, ends_a_reply_without_an_end_at_its_limits];
    claude_325: Cli::Claude325 => [writes_sessions_that_are_read_back, ends_its_turns_as_the_model_ends_its_answers, shows_an_image_to_its_model,
        runs_nothing_that_git_is_told_to, waits_for_sub_agents, waits_for_background_shells,
        ends_shells_that_never_end, cancels_background_tasks_without_a_trace, delivers_byte_for_byte, never_reads_a_file_that_is_named,
        runs_nothing_that_an_untrusted_project_brings, runs_a_tool, edits_a_file, reads_without_permission_to_write, tells_failures_apart, cancels_without_a_trace, ends_when_convoke_is_killed, resumes_its_session,
        tells_errors_of_the_server_and_limits_requests,
        ends_when_the_server_answers_garbage, ends_a_reply_without_an_end_at_its_limits];
    gemini: Cli::Gemini => [ends_its_turns_as_the_model_ends_its_answers, shows_an_image_to_its_model,
        leaves_every_at_sign_alone, writes_its_output_whole_before_it_exits, delivers_byte_for_byte, never_reads_a_file_that_is_named,
        takes_variables_of_a_project_only_when_it_is_trusted,
        runs_nothing_that_an_untrusted_project_brings, runs_a_tool, edits_a_file, reads_without_permission_to_write, tells_failures_apart, cancels_without_a_trace, ends_when_convoke_is_killed, resumes_its_session,
        tells_errors_of_the_server_and_limits_requests,
        ends_when_the_server_answers_garbage, ends_a_reply_without_an_end_at_its_limits];
    codex_098: Cli::Codex98 => [writes_sessions_that_are_read_back, ends_its_turns_as_the_model_ends_its_answers, shows_an_image_to_its_model,
        delivers_byte_for_byte, never_reads_a_file_that_is_named,
        leaves_the_users_configuration_alone, gives_up_where_there_is_no_network,
        signs_in_with_the_users_key_and_keeps_it_to_itself,
        runs_nothing_that_an_untrusted_project_brings, runs_a_tool, edits_a_file, reads_without_permission_to_write, tells_failures_apart, cancels_without_a_trace, ends_when_convoke_is_killed, resumes_its_session,
        tells_errors_of_the_server_and_limits_requests,
        ends_when_the_server_answers_garbage, ends_a_reply_without_an_end_at_its_limits];
    codex_166: Cli::Codex166 => [writes_sessions_that_are_read_back, ends_its_turns_as_the_model_ends_its_answers, shows_an_image_to_its_model,
        delivers_byte_for_byte, never_reads_a_file_that_is_named,
        leaves_the_users_configuration_alone, gives_up_where_there_is_no_network,
        signs_in_with_the_users_key_and_keeps_it_to_itself,
        runs_nothing_that_an_untrusted_project_brings, runs_a_tool, edits_a_file, reads_without_permission_to_write, tells_failures_apart, cancels_without_a_trace, ends_when_convoke_is_killed, resumes_its_session,
        tells_errors_of_the_server_and_limits_requests,
        ends_when_the_server_answers_garbage, ends_a_reply_without_an_end_at_its_limits];
    codex_098_exec: Cli::Codex98Exec => [writes_sessions_that_are_read_back, ends_its_turns_as_the_model_ends_its_answers, shows_an_image_to_its_model,
        delivers_byte_for_byte, never_reads_a_file_that_is_named,
        leaves_the_users_configuration_alone, gives_up_where_there_is_no_network,
        runs_nothing_that_an_untrusted_project_brings, runs_a_tool, tells_failures_apart, cancels_without_a_trace, resumes_its_session,
        tells_errors_of_the_server_and_limits_requests,
        ends_when_the_server_answers_garbage, ends_a_reply_without_an_end_at_its_limits];
    codex_166_exec: Cli::Codex166Exec => [writes_sessions_that_are_read_back, ends_its_turns_as_the_model_ends_its_answers, shows_an_image_to_its_model,
        delivers_byte_for_byte, never_reads_a_file_that_is_named,
        leaves_the_users_configuration_alone, gives_up_where_there_is_no_network,
        runs_nothing_that_an_untrusted_project_brings, runs_a_tool, tells_failures_apart, cancels_without_a_trace, resumes_its_session,
        tells_errors_of_the_server_and_limits_requests,
        ends_when_the_server_answers_garbage, ends_a_reply_without_an_end_at_its_limits];
}

/// The tests of each CLI that take minutes; `-- --ignored` runs them.
macro_rules! long_for_each_cli {
    ($($name:ident: $cli:expr;)*) => {
        mod long {
            use super::*;
            $(#[tokio::test]
            #[ignore = "takes minutes"]
            async fn $name() {
                understands_the_end_of_a_reply_of_50_megabytes($cli).await;
            })*
        }
    };
}

/// Random answers for each CLI, every night.
macro_rules! random_for_each_cli {
    ($($name:ident: $cli:expr;)*) => {
        mod random {
            use super::*;
            $(#[tokio::test]
            #[ignore = "takes minutes"]
            async fn $name() {
                ends_random_turns($cli).await;
            })*
        }
    };
}

random_for_each_cli! {
    claude_197: Cli::Claude197;
    claude_325: Cli::Claude325;
    gemini: Cli::Gemini;
    codex_098: Cli::Codex98;
    codex_166: Cli::Codex166;
    codex_098_exec: Cli::Codex98Exec;
    codex_166_exec: Cli::Codex166Exec;
}

long_for_each_cli! {
    claude_197: Cli::Claude197;
    claude_325: Cli::Claude325;
    gemini: Cli::Gemini;
    codex_098: Cli::Codex98;
    codex_166: Cli::Codex166;
    codex_098_exec: Cli::Codex98Exec;
    codex_166_exec: Cli::Codex166Exec;
}
