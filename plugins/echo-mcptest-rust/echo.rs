//! The mcptest reference plugin in Rust: `echo` returns its params, `ping` returns "pong".
//! It needs no crate: it finds the members it knows and copies their text as it stands.
//! Build: rustc --edition 2021 -O -o bin/echo echo.rs
use std::io::{self, BufRead, Write};

#[path = "../json_text.rs"]
mod json_text;

fn refuse(id: &str, code: i32, message: &str) -> String {
    format!(r#"{{"id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
}

/// The answer to a request; None when the line is none.
fn reply(line: &[u8]) -> Option<String> {
    let request = json_text::members(std::str::from_utf8(line).ok()?)?;
    let id = request.get("id")?;
    Some(match (*request.get("method")?, request.get("params")) {
        (r#""echo""#, Some(params)) => format!(r#"{{"id":{id},"result":{params}}}"#),
        (r#""echo""#, None) => refuse(id, -32602, "echo needs params"),
        (r#""ping""#, _) => format!(r#"{{"id":{id},"result":"pong"}}"#),
        _ => refuse(id, -32601, "no such method"),
    })
}

fn main() -> io::Result<()> {
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    let mut line = Vec::new();
    while stdin.read_until(b'\n', &mut line)? > 0 {
        let answer = reply(&line).unwrap_or_else(|| refuse("null", -32700, "not a request"));
        writeln!(stdout, "{answer}")?;
        stdout.flush()?;
        line.clear();
    }
    Ok(())
}
