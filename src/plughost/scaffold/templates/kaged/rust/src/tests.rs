use crate::json::Json;
use crate::kaged::{INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::PLUGIN;

const ADA: &str = r#"{"jsonrpc":"2.0","id":2,"method":"{{name}}.greet","params":{"name":"Ada"}}"#;

/// What the plugin answers to these lines.
fn ask(lines: &[&str]) -> Vec<Json> {
    let mut output = Vec::new();
    PLUGIN
        .serve(lines.join("\n").as_bytes(), &mut output)
        .unwrap();
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

fn greeted(answer: &Json) -> &Json {
    answer.get("result").unwrap().get("greeting").unwrap()
}

#[test]
fn it_says_who_it_is_and_that_it_is_well() {
    let answers = ask(&[
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"health.check","params":{}}"#,
    ]);
    let about = answers[0].get("result").unwrap();
    assert_eq!(about.get("name"), Some(&"{{name}}".into()));
    assert_eq!(
        about.get("methods").and_then(Json::list),
        Some(&["{{name}}.greet".into()][..])
    );
    let health = answers[1].get("result").unwrap();
    assert_eq!(health.get("status"), Some(&"ok".into()));
}

#[test]
fn it_greets() {
    let answers = ask(&[ADA]);
    assert_eq!(answers[0].get("id"), Some(&2.into()));
    assert_eq!(greeted(&answers[0]), &"Hello, Ada!".into());
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
        let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{{name}}.greet"{params}}}"#);
        let answers = ask(&[&call, ADA]);
        assert_eq!(code(&answers[0]), INVALID_PARAMS, "{params}");
        assert_eq!(answers[0].get("id"), Some(&1.into()));
        assert_eq!(greeted(&answers[1]), &"Hello, Ada!".into());
    }
}

#[test]
fn a_method_that_it_does_not_have() {
    let answers = ask(&[r#"{"jsonrpc":"2.0","id":1,"method":"{{name}}.sing","params":{}}"#]);
    assert_eq!(code(&answers[0]), METHOD_NOT_FOUND);
}
