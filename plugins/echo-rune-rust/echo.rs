//! The rune reference plugin in Rust: one process per call; the tool `echo` returns its input.
//! Build: rustc --edition 2021 -O -o bin/echo echo.rs
use std::error::Error;
use std::io::{self, Write};

#[path = "../json_text.rs"]
mod json_text;

fn send(message: String) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{message}")?;
    stdout.flush()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    send(
        r#"{"type":"handshake","manifest":{"plugin_id":"example.echo-rust","plugin_version":"1.0.0","protocol_version":"rterm.plugin.v1","exposed_tools":["echo","fail"],"capabilities":["tool.execute"]}}"#.into(),
    )?;

    let mut line = String::new();
    if io::stdin().read_line(&mut line)? == 0 {
        return Ok(()); // the host wanted to know the manifest only
    }
    let request = json_text::members(&line).ok_or("not a request")?;
    let member = |name| request.get(name).ok_or_else(|| format!("no {name}"));
    let id = member("request_id")?;
    send(if *member("tool_name")? == r#""echo""# {
        let (input, context) = (member("input")?, member("context")?);
        format!(
            r#"{{"type":"response","request_id":{id},"status":"ok","output":{input},"metadata":{{"context":{context}}}}}"#
        )
    } else {
        let error = r#"{"code":"asked_for","message":"you asked for it"}"#;
        format!(r#"{{"type":"response","request_id":{id},"status":"error","error":{error}}}"#)
    })?;
    io::copy(&mut io::stdin(), &mut io::sink())?; // until the host is done: an early exit can cost it the answer
    Ok(())
}
