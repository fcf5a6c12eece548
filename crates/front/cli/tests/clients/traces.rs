//! Exported sessions, read by the official types of OpenTelemetry and the validator of ATIF.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;

use super::Place;

/// Reads an export with the Python packages of others.
fn read_by_others(place: &Place, form: &str, exported: &[u8]) -> String {
    let mut child = Command::new("python3")
        .arg(Place::script("traces.py"))
        .arg(form)
        .env("PYTHONPATH", place.clients.join("python"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(exported).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn convoke(place: &Place, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_convoke"))
        .args(arguments)
        .current_dir(place.home.path())
        .env_clear()
        .env("HOME", place.home.path())
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-team=review")
        .output()
        .unwrap();
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {problem}");
    output.stdout
}

/// Checks that spans are one tree below one root, and returns their names.
fn tree(told: &str) -> Vec<&str> {
    let spans: Vec<Vec<&str>> = told.lines().map(|line| line.split('\t').collect()).collect();
    let roots = spans.iter().filter(|span| span[2].is_empty());
    assert_eq!(roots.count(), 1, "{told}");
    for span in &spans {
        assert_eq!(spans.iter().filter(|other| other[1] == span[1]).count(), 1, "{told}");
        assert!(span[2].is_empty() || spans.iter().any(|other| other[1] == span[2]), "{told}");
    }
    spans.iter().map(|span| span[0]).collect()
}

/// Takes requests of a collector: answers the first with 503 and the others with 200, and returns their bodies.
fn collect(listener: &TcpListener, requests: usize) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    for number in 0..requests {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        assert!(head.starts_with("post /v1/traces "), "{head}");
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        assert!(head.contains("x-team: review"), "{head}");
        let length = head.split("content-length: ").nth(1).unwrap().split('\r').next().unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        let answer = if number == 0 { "503 Busy\r\nretry-after: 0" } else { "200 OK" };
        write!(stream, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .unwrap();
        bodies.push(body);
    }
    bodies
}

#[test]
fn a_session_is_a_trace_and_a_trajectory_that_the_packages_of_others_read() {
    let Some(place) = Place::new() else { return };
    convoke(&place, &["run", "--rehearse"]);
    let exported = convoke(&place, &["sessions", "export", "--otlp", "--content"]);
    let told = read_by_others(&place, "otlp-json", &exported);
    let names = tree(&told);
    assert!(names.iter().any(|name| name.starts_with("invoke_workflow")), "{names:?}");
    assert!(names.contains(&"invoke_agent ada"), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("execute_tool ")), "{names:?}");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let collector = thread::spawn(move || collect(&listener, 2));
    convoke(&place, &["sessions", "export", &format!("--otlp=http://{address}"), "--content"]);
    let bodies = collector.join().unwrap();
    assert_eq!(bodies[0], bodies[1], "what was refused is sent again");
    assert_eq!(read_by_others(&place, "otlp-protobuf", &bodies[1]), told);

    let without = convoke(&place, &["sessions", "export", "--otlp"]);
    let without = String::from_utf8(without).unwrap();
    for content in ["gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments"]
    {
        assert!(!without.contains(content), "{content} is in a trace only if it is asked for");
    }
    let trajectory = convoke(&place, &["sessions", "export", "--atif"]);
    let sources = read_by_others(&place, "atif", &trajectory);
    assert!(sources.starts_with("user agent"), "{sources}");
}
