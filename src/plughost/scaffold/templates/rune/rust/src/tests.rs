use crate::json::Json;
use crate::PLUGIN;

/// What the plugin says to a handshake and a request.
fn converse(tool: &str, input: &str) -> [Json; 2] {
    let handshake = r#"{"type":"handshake","protocol_version":"rterm.plugin.v1"}"#;
    let call = format!(r#""tool_name":"{tool}","context":{{}},"input":{input}"#);
    let lines = format!("{handshake}\n{{\"type\":\"request\",\"request_id\":\"r1\",{call}}}\n");
    let mut output = Vec::new();
    PLUGIN.serve(lines.as_bytes(), &mut output).unwrap();
    let said = output.split_inclusive(|byte| *byte == b'\n');
    let messages: Vec<Json> = said.map(|line| Json::parse(line).unwrap()).collect();
    messages.try_into().unwrap()
}

fn error_code(answer: &Json) -> &str {
    assert_eq!(answer.get("status"), Some(&"error".into()));
    answer
        .get("error")
        .unwrap()
        .get("code")
        .unwrap()
        .text()
        .unwrap()
}

#[test]
fn it_says_who_it_is_and_greets() {
    let [opening, answer] = converse("greet", r#"{"name":"Ada"}"#);
    let manifest = opening.get("manifest").unwrap();
    assert_eq!(manifest.get("plugin_id"), Some(&"{{name}}".into()));
    assert_eq!(
        manifest.get("protocol_version"),
        Some(&"rterm.plugin.v1".into())
    );
    assert_eq!(answer.get("request_id"), Some(&"r1".into()));
    assert_eq!(
        answer.get("output").unwrap().get("greeting"),
        Some(&"Hello, Ada!".into())
    );
}

#[test]
fn wrong_input_is_refused() {
    for input in ["{}", r#"{"name":1}"#, r#"["Ada"]"#, "null"] {
        assert_eq!(
            error_code(&converse("greet", input)[1]),
            "invalid_input",
            "{input}"
        );
    }
}

#[test]
fn a_tool_that_it_does_not_have() {
    assert_eq!(error_code(&converse("sing", "{}")[1]), "unknown_tool");
}
