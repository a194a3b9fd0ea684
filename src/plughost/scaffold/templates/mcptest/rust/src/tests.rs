use crate::json::Json;
use crate::mcptest::{serve, INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::METHODS;

const ADA: &str = r#"{"id":"b","method":"greet","params":{"name":"Ada"}}"#;

/// What the plugin answers to these lines.
fn ask(lines: &[&str]) -> Vec<Json> {
    let mut output = Vec::new();
    serve(&METHODS, lines.join("\n").as_bytes(), &mut output).unwrap();
    output
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| Json::parse(line).unwrap())
        .collect()
}

fn code(answer: &Json) -> i64 {
    answer
        .get("error")
        .unwrap()
        .get("code")
        .unwrap()
        .integer()
        .unwrap()
}

fn greeted(id: &str) -> Json {
    let result = Json::object([("greeting", "Hello, Ada!".into())]);
    Json::object([("id", id.into()), ("result", result)])
}

#[test]
fn it_greets() {
    assert_eq!(ask(&[ADA]), [greeted("b")]);
}

#[test]
fn wrong_params_are_refused_and_the_next_call_is_served() {
    for params in [
        "",
        r#","params":null"#,
        r#","params":{}"#,
        r#","params":{"name":1}"#,
        r#","params":["Ada"]"#,
    ] {
        let answers = ask(&[&format!(r#"{{"id":7,"method":"greet"{params}}}"#), ADA]);
        assert_eq!(code(&answers[0]), INVALID_PARAMS, "{params}");
        assert_eq!(answers[0].get("id"), Some(&7.into()));
        assert_eq!(answers[1], greeted("b"));
    }
}

#[test]
fn a_method_that_it_does_not_have() {
    assert_eq!(
        code(&ask(&[r#"{"id":1,"method":"sing"}"#])[0]),
        METHOD_NOT_FOUND
    );
}
