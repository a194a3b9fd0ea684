//! The contract mcptest: a request a line, a response a line, until the stream ends.
use crate::json::Json;
use std::io::{self, BufRead, Write};
use std::panic::catch_unwind;

pub const PARSE_ERROR: i64 = -32700;
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL_ERROR: i64 = -32603;

/// An answer with an error: its code and its message.
pub struct Refusal(pub i64, pub String);

/// Answers a request; the params are None when there were none.
pub type Method = fn(Option<&Json>) -> Result<Json, Refusal>;

/// Answers requests one at a time.
pub fn serve(
    methods: &[(&str, Method)],
    mut input: impl BufRead,
    mut output: impl Write,
) -> io::Result<()> {
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        output.write_all(format!("{}\n", reply(methods, &line)).as_bytes())?;
        line.clear();
    }
    Ok(())
}

fn reply(methods: &[(&str, Method)], line: &[u8]) -> Json {
    let request = match Json::parse(line) {
        Ok(request @ Json::Object(_)) => request,
        Ok(_) => {
            return refused(
                Json::Null,
                Refusal(INVALID_REQUEST, "a request is an object".to_string()),
            )
        }
        Err(why) => return refused(Json::Null, Refusal(PARSE_ERROR, format!("not JSON: {why}"))),
    };
    let id = request.get("id").cloned().unwrap_or(Json::Null);
    match call(methods, &request) {
        Ok(result) => Json::object([("id", id), ("result", result)]),
        Err(refusal) => refused(id, refusal),
    }
}

fn call(methods: &[(&str, Method)], request: &Json) -> Result<Json, Refusal> {
    let name = request.get("method").and_then(Json::text).unwrap_or("");
    let Some((_, method)) = methods.iter().find(|(each, _)| *each == name) else {
        return Err(Refusal(METHOD_NOT_FOUND, format!("no method {name}")));
    };
    // A panic has told stderr why; the next request is served all the same.
    catch_unwind(|| method(request.get("params")))
        .unwrap_or_else(|_| Err(Refusal(INTERNAL_ERROR, format!("{name} failed"))))
}

fn refused(id: Json, Refusal(code, message): Refusal) -> Json {
    let error = Json::object([("code", code.into()), ("message", message.into())]);
    Json::object([("id", id), ("error", error)])
}
