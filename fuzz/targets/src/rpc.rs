use convoke_core::Millis;
use convoke_core::marker::TextPolicy;
use serde_json::Value;

/// Sends any lines to the JSON-RPC server: every call with an id is answered, in order, in valid JSON.
pub fn rpc(bytes: &[u8]) -> bool {
    let mut output = Vec::new();
    convoke_pipe::rpc::serve(bytes, &mut output, TextPolicy::Preserve, 1 << 20, || Millis(0))
        .expect("no I/O");
    let mut answers = Vec::new();
    let mut has_result = false;
    for line in output.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let message: Value = serde_json::from_slice(line).expect("a line of JSON");
        assert_eq!(message["jsonrpc"], "2.0");
        match message.get("id") {
            Some(id) => answers.push(id.clone()),
            None => assert!(message.get("method").is_some(), "a notification"),
        }
        assert_ne!(message["error"]["code"], -32603, "no internal error");
        has_result |= message.get("result").is_some();
    }
    let mut answers = answers.into_iter();
    for line in bytes.split(|&byte| byte == b'\n') {
        let Ok(Value::Object(call)) = serde_json::from_slice::<Value>(line) else { continue };
        if let Some(id @ (Value::Number(_) | Value::String(_))) = call.get("id") {
            assert!(answers.any(|answered| answered == *id), "every call is answered, in order");
        }
    }
    has_result
}
