use crate::frames;
use crate::json::Json;
use crate::PLUGIN;

/// What the plugin says to a hello and these messages.
fn ask(messages: &[String]) -> Vec<Json> {
    let mut input = Vec::new();
    for message in [&[r#""type":"hello","role":"host""#.to_string()], messages].concat() {
        let body = format!(r#"{{"protocol":"vai.rpc.v1",{message}}}"#);
        frames::write(&mut input, &body).unwrap();
    }
    let output = PLUGIN.serve(input.as_slice(), Vec::new()).unwrap();
    let mut rest = output.as_slice();
    let mut said = Vec::new();
    while let Some(body) = frames::read(&mut rest).unwrap() {
        said.push(Json::parse(&body).unwrap());
    }
    said
}

fn request(op: &str, export: &str, input: &str) -> String {
    format!(
        r#""type":"request","id":"a","op":"{op}","body":{{"export_id":"{export}","context":{{}},"input":{input}}}"#
    )
}

/// A member of a member of …
fn at<'a>(message: &'a Json, path: &[&str]) -> &'a Json {
    path.iter()
        .fold(message, |value, name| value.get(name).unwrap())
}

#[test]
fn it_is_what_its_manifest_says() {
    let said = ask(&[]);
    assert_eq!(
        at(&said[0], &["plugin", "package_id"]),
        &"example/{{name}}".into()
    );
    assert_eq!(at(&said[0], &["plugin", "version"]), &"0.1.0".into());
}

#[test]
fn it_greets() {
    let said = ask(&[request("tool.invoke", "greet", r#"{"name":"Ada"}"#)]);
    assert_eq!(at(&said[1], &["event", "message"]), &"greeting Ada".into());
    assert_eq!(at(&said[2], &["body", "status"]), &"succeeded".into());
    let output = at(&said[2], &["body", "result", "structured_output"]);
    assert_eq!(output.get("greeting"), Some(&"Hello, Ada!".into()));
}

#[test]
fn wrong_input_is_a_failed_result() {
    for input in ["null", "{}", r#"{"name":1}"#, r#"["Ada"]"#] {
        let said = ask(&[request("tool.invoke", "greet", input)]);
        assert_eq!(at(&said[1], &["ok"]), &Json::Bool(true));
        assert_eq!(at(&said[1], &["body", "status"]), &"failed".into());
        assert_eq!(
            at(&said[1], &["body", "result", "is_error"]),
            &Json::Bool(true)
        );
    }
}

#[test]
fn what_it_cannot_do_is_refused() {
    let said = ask(&[request("tool.invoke", "sing", "{}")]);
    assert_eq!(
        at(&said[1], &["body", "error", "code"]),
        &"export.unknown".into()
    );
    let said = ask(&[request("tool.sing", "greet", "{}")]);
    assert_eq!(
        at(&said[1], &["error", "code"]),
        &"protocol.invalid_frame".into()
    );
}
