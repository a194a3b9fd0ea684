//! The contract kaged: JSON-RPC, a message a line, initialize first, until the stream ends.
use crate::json::Json;
use std::io::{self, BufRead, Write};
use std::panic::catch_unwind;

const API_VERSION: i64 = 1;
pub const MAX_MESSAGE: usize = 4_000_000;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL_ERROR: i64 = -32603;

/// An answer with an error: its code and its message.
pub struct Refusal(pub i64, pub String);

/// Answers a call; the params are Null when there were none. Who calls, on whose behalf, is in their `_context`.
pub type Method = fn(&Json) -> Result<Json, Refusal>;

/// What a plugin says of itself, and what it does.
pub struct Plugin {
    pub name: &'static str,
    pub version: &'static str,
    pub methods: &'static [(&'static str, Method)],
}

impl Plugin {
    /// Answers calls one at a time, in their order.
    pub fn serve(&self, mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
        let mut line = Vec::new();
        while input.read_until(b'\n', &mut line)? > 0 {
            if let Some(answer) = self.handle(&line) {
                output.write_all(format!("{answer}\n").as_bytes())?;
            }
            line.clear();
        }
        Ok(())
    }

    /// The answer to a line; None when nobody waits for one.
    fn handle(&self, line: &[u8]) -> Option<String> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let message = match Json::parse(line) {
            Ok(message) => message,
            Err(why) => {
                eprintln!("dropped something that is not a message: {why}");
                return None;
            }
        };
        let method = message.get("method").and_then(Json::text)?;
        let answer = self.call(method, message.get("params").unwrap_or(&Json::Null));
        match message.get("id")? {
            Json::Null => None,
            id => Some(reply(id, answer)),
        }
    }

    fn call(&self, name: &str, params: &Json) -> Result<Json, Refusal> {
        match name {
            "initialize" => return Ok(self.about()),
            // The end of the stream is the end, not shutdown.
            "health.check" | "ping" | "shutdown" => {
                return Ok(Json::object([("status", "ok".into())]))
            }
            _ => {}
        }
        let Some((_, method)) = self.methods.iter().find(|(each, _)| *each == name) else {
            return Err(Refusal(
                METHOD_NOT_FOUND,
                format!("method not found: {name:.1000}"),
            ));
        };
        // A panic has told stderr why; the next call is served all the same.
        catch_unwind(|| method(params))
            .unwrap_or_else(|_| Err(Refusal(INTERNAL_ERROR, format!("{name} failed"))))
    }

    fn about(&self) -> Json {
        let methods = self.methods.iter().map(|(name, _)| Json::from(*name));
        Json::object([
            ("name", self.name.into()),
            ("version", self.version.into()),
            ("api_version", API_VERSION.into()),
            ("methods", Json::List(methods.collect())),
            ("notifications", Json::List(Vec::new())),
            ("capabilities_used", Json::List(Vec::new())),
        ])
    }
}

fn reply(id: &Json, answer: Result<Json, Refusal>) -> String {
    let envelope = |what, said| {
        let version = ("jsonrpc", "2.0".into());
        Json::object([version, ("id", id.clone()), (what, said)]).to_string()
    };
    let refuse = |Refusal(code, message)| {
        let error = Json::object([("code", code.into()), ("message", message.into())]);
        envelope("error", error)
    };
    let said = match answer {
        Ok(result) => envelope("result", result),
        Err(refusal) => refuse(refusal),
    };
    if said.len() <= MAX_MESSAGE {
        return said;
    }
    let size = said.len();
    let told = format!("an answer of {size} bytes is over the limit of {MAX_MESSAGE}");
    eprintln!("{told}");
    refuse(Refusal(INTERNAL_ERROR, told))
}
