use crate::ainb::{serve, INVALID_PARAMS, MANIFEST_VALIDATION, METHOD_NOT_FOUND};
use crate::json::Json;
use crate::{frames, Greeter};

const SIZE: &str = r#"{"viewport":{"width":40,"height":5}}"#;

/// What the plugin answers to these requests, each a method and its params. Keys are only told.
fn ask(requests: &[(&str, &str)]) -> Vec<Json> {
    let mut input = Vec::new();
    for (id, (method, params)) in requests.iter().enumerate() {
        let id = if *method == "plugin/handle_key" {
            String::new()
        } else {
            format!(r#""id":{id},"#)
        };
        let body = format!(r#"{{"jsonrpc":"2.0",{id}"method":"{method}","params":{params}}}"#);
        frames::write(&mut input, &body).unwrap();
    }
    let mut output = Vec::new();
    serve(&mut Greeter::new(), input.as_slice(), &mut output).unwrap();
    let mut said = output.as_slice();
    std::iter::from_fn(|| frames::read(&mut said).unwrap())
        .map(|body| Json::parse(&body).unwrap())
        .collect()
}

fn result<'a>(answer: &'a Json, name: &str) -> &'a Json {
    answer.get("result").unwrap().get(name).unwrap()
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

/// A line of the screen.
fn line(answer: &Json, y: i64) -> String {
    let cells = result(answer, "buffer")
        .get("cells")
        .unwrap()
        .list()
        .unwrap();
    let painted = cells.iter().map(|cell| cell.list().unwrap());
    let here = painted.filter(|cell| cell[0].get("y") == Some(&y.into()));
    here.map(|cell| cell[1].get("symbol").unwrap().text().unwrap())
        .collect()
}

#[test]
fn it_says_who_it_is() {
    let init =
        |abi| format!(r#"{{"manifest_path":"","granted_capabilities":[],"abi_version":{abi}}}"#);
    assert_eq!(
        result(&ask(&[("plugin/init", &init(2))])[0], "name"),
        &"{{name}}".into()
    );
    assert_eq!(
        code(&ask(&[("plugin/init", &init(3))])[0]),
        MANIFEST_VALIDATION
    );
}

#[test]
fn the_screen_greets_and_shows_the_last_key() {
    let answers = ask(&[
        ("plugin/render", SIZE),
        (
            "plugin/handle_key",
            r#"{"key":{"code":{"type":"char","ch":"x"}}}"#,
        ),
        ("plugin/render", SIZE),
        ("plugin/handle_key", r#"{"key":{"code":{"type":"esc"}}}"#),
        ("plugin/render", SIZE),
        ("plugin/render", r#"{"viewport":{"width":5,"height":1}}"#),
    ]);
    assert_eq!(line(&answers[0], 0), "Hello, world!");
    let lines: Vec<String> = answers.iter().map(|answer| line(answer, 1)).collect();
    assert_eq!(
        lines,
        ["Last key: none yet", "Last key: x", "Last key: esc", ""]
    );
    assert_eq!(line(&answers[3], 0), "Hello");
}

#[test]
fn the_command_line() {
    let answers = ask(&[(
        "plugin/cli_dispatch",
        r#"{"namespace":"{{name}}","argv":["Ada"]}"#,
    )]);
    assert_eq!(result(&answers[0], "stdout"), &"SGVsbG8sIEFkYSEK".into());
    assert_eq!(result(&answers[0], "exit_code"), &0.into());
}

#[test]
fn what_it_cannot_do_is_refused() {
    let answers = ask(&[
        ("sing", "{}"),
        (
            "plugin/render",
            r#"{"viewport":{"width":"wide","height":1}}"#,
        ),
    ]);
    assert_eq!(
        [code(&answers[0]), code(&answers[1])],
        [METHOD_NOT_FOUND, INVALID_PARAMS]
    );
}
