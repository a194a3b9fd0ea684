//! The contract rune: a handshake, a request and a response, a line each, and then the end.
use crate::json::Json;
use std::io::{self, BufRead, Write};
use std::panic::catch_unwind;

const PROTOCOL: &str = "rterm.plugin.v1";

/// An answer with an error: a code in your own words, and a message.
pub struct Refusal(pub &'static str, pub String);

/// Answers a call; it gets the input and the context.
pub type Tool = fn(&Json, &Json) -> Result<Json, Refusal>;

/// What a plugin says of itself, and what it does.
pub struct Plugin {
    pub id: &'static str,
    pub version: &'static str,
    pub capabilities: &'static [&'static str],
    pub tools: &'static [(&'static str, Tool)],
}

impl Plugin {
    /// Answers one call.
    pub fn serve(&self, mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
        if read(&mut input, "handshake")?.is_none() {
            return Ok(());
        }
        output.write_all(format!("{}\n", self.handshake()).as_bytes())?;
        let Some(request) = read(&mut input, "request")? else {
            return Ok(());
        };
        output.write_all(format!("{}\n", self.respond(&request)).as_bytes())?;
        io::copy(&mut input, &mut io::sink())?; // until the host is done, too
        Ok(())
    }

    fn handshake(&self) -> Json {
        let words = |words: Vec<&str>| Json::List(words.into_iter().map(Json::from).collect());
        let tools = self.tools.iter().map(|(name, _)| *name).collect();
        let manifest = Json::object([
            ("plugin_id", self.id.into()),
            ("plugin_version", self.version.into()),
            ("protocol_version", PROTOCOL.into()),
            ("exposed_tools", words(tools)),
            ("capabilities", words(self.capabilities.to_vec())),
        ]);
        Json::object([("type", "handshake".into()), ("manifest", manifest)])
    }

    fn respond(&self, request: &Json) -> Json {
        let id = request.get("request_id").cloned().unwrap_or(Json::Null);
        let (status, what, said) = match self.execute(request) {
            Ok(output) => ("ok", "output", output),
            Err(Refusal(code, message)) => {
                let error = Json::object([("code", code.into()), ("message", message.into())]);
                ("error", "error", error)
            }
        };
        let kind = ("type", "response".into());
        Json::object([
            kind,
            ("request_id", id),
            ("status", status.into()),
            (what, said),
        ])
    }

    fn execute(&self, request: &Json) -> Result<Json, Refusal> {
        let name = request.get("tool_name").and_then(Json::text).unwrap_or("");
        let Some((_, tool)) = self.tools.iter().find(|(each, _)| *each == name) else {
            return Err(Refusal("unknown_tool", format!("no tool {name}")));
        };
        let part = |name| request.get(name).unwrap_or(&Json::Null);
        // A panic has told stderr why.
        catch_unwind(|| tool(part("input"), part("context")))
            .unwrap_or_else(|_| Err(Refusal("failed", format!("{name} failed"))))
    }
}

/// The message of this type that is due, None at the end, and an error for anything else.
fn read(input: &mut impl BufRead, kind: &str) -> io::Result<Option<Json>> {
    let mut line = Vec::new();
    if input.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let message = Json::parse(&line).ok();
    let due = message.filter(|message| message.get("type").and_then(Json::text) == Some(kind));
    due.map(Some).ok_or_else(|| {
        let said = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the host sent something other than a {kind}: {said}"),
        )
    })
}
