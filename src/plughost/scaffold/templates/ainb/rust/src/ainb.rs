//! The contract ainb: JSON-RPC in frames, plugin/init first, plugin/shutdown last.
use crate::frames::{self, MAX_BODY};
use crate::json::Json;
use crate::manifest;
use crate::screen::Screen;
use std::io::{self, BufRead, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};

const ABI_VERSION: i64 = 2;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL_ERROR: i64 = -32603;
pub const MANIFEST_VALIDATION: i64 = -32003;

/// An answer with an error: its code and its message.
pub struct Refusal(pub i64, pub String);

type Answer = Result<Json, Refusal>;

/// What a command line prints, and its exit code.
#[derive(Default)]
pub struct Output {
    pub stdout: String,
    pub stderr: String,
    pub exit_code: i64,
}

/// What a plugin does.
pub trait Plugin {
    fn draw(&self, screen: &mut Screen);
    /// A key: its code has a `type` (char, enter, esc, page_up, f …), and a char has a `ch`.
    fn key(&mut self, code: &Json);
    /// Runs a command line of a namespace; None when it is not one of the plugin's.
    fn command(&mut self, namespace: &str, argv: &[&str]) -> Option<Output>;
}

/// Handles messages one at a time, in their order, until the host says shutdown or has gone.
pub fn serve(
    plugin: &mut dyn Plugin,
    mut input: impl BufRead,
    mut output: impl Write,
) -> io::Result<()> {
    while let Some(body) = frames::read(&mut input)? {
        let message = match Json::parse(&body) {
            Ok(message) => message,
            Err(why) => {
                eprintln!("dropped something that is not a message: {why}");
                continue;
            }
        };
        let Some(method) = message.get("method").and_then(Json::text) else {
            continue; // it answers nothing that was asked
        };
        let answer = call(plugin, method, message.get("params").unwrap_or(&Json::Null));
        match message.get("id") {
            None | Some(Json::Null) => {}
            Some(id) => frames::write(&mut output, &reply(id, answer))?,
        }
        if method == "plugin/shutdown" {
            break;
        }
    }
    Ok(())
}

fn reply(id: &Json, answer: Answer) -> String {
    let envelope = |what, said| {
        let version = ("jsonrpc", "2.0".into());
        Json::object([version, ("id", id.clone()), (what, said)]).to_string()
    };
    let refuse = |Refusal(code, message)| {
        let error = Json::object([("code", code.into()), ("message", message.into())]);
        envelope("error", error)
    };
    match answer {
        Ok(result) => Some(envelope("result", result))
            .filter(|body| body.len() <= MAX_BODY)
            .unwrap_or_else(|| {
                refuse(Refusal(
                    INTERNAL_ERROR,
                    "the result is too large for a frame".to_string(),
                ))
            }),
        Err(refusal) => refuse(refusal),
    }
}

fn call(plugin: &mut dyn Plugin, method: &str, params: &Json) -> Answer {
    // A panic has told stderr why; the next message is handled all the same.
    let handled = catch_unwind(AssertUnwindSafe(|| match method {
        "plugin/init" => init(params),
        "plugin/shutdown" => Ok(Json::object([])),
        "plugin/render" => render(plugin, params),
        "plugin/handle_key" => handle_key(plugin, params),
        "plugin/cli_dispatch" => dispatch(plugin, params),
        _ => Err(Refusal(
            METHOD_NOT_FOUND,
            format!("method not found: {method}"),
        )),
    }));
    handled.unwrap_or_else(|_| Err(Refusal(INTERNAL_ERROR, format!("{method} failed"))))
}

fn wrong(what: &str) -> Refusal {
    Refusal(INVALID_PARAMS, what.to_string())
}

fn init(params: &Json) -> Answer {
    let abi = params
        .get("abi_version")
        .and_then(Json::integer)
        .ok_or(wrong("`abi_version` must be a number"))?;
    params
        .get("granted_capabilities")
        .and_then(Json::list)
        .ok_or(wrong("`granted_capabilities` must be a list"))?;
    if abi != ABI_VERSION {
        return Err(Refusal(
            MANIFEST_VALIDATION,
            format!("the host speaks ABI {abi}, this plugin {ABI_VERSION}"),
        ));
    }
    let manifest = manifest::read().map_err(|why| Refusal(MANIFEST_VALIDATION, why))?;
    let about = |name| {
        manifest
            .get("plugin")
            .and_then(|about| about.get(name))
            .cloned()
            .unwrap_or(Json::Null)
    };
    Ok(Json::object([
        ("name", about("name")),
        ("version", about("version")),
        ("abi_version", ABI_VERSION.into()),
        ("manifest", manifest.clone()),
    ]))
}

fn render(plugin: &dyn Plugin, params: &Json) -> Answer {
    let side = |name| {
        let side = params
            .get("viewport")
            .and_then(|viewport| viewport.get(name))
            .and_then(Json::integer);
        side.filter(|side| (0..=65535).contains(side))
            .ok_or(wrong("`viewport` must have two sides from 0 to 65535"))
    };
    let mut screen = Screen::new(side("width")?, side("height")?);
    plugin.draw(&mut screen);
    Ok(Json::object([("buffer", screen.to_json())]))
}

fn handle_key(plugin: &mut dyn Plugin, params: &Json) -> Answer {
    let code = params.get("key").and_then(|key| key.get("code"));
    let code = code.filter(|code| code.get("type").and_then(Json::text).is_some());
    plugin.key(code.ok_or(wrong("`key` must have a code"))?);
    Ok(Json::object([]))
}

fn dispatch(plugin: &mut dyn Plugin, params: &Json) -> Answer {
    let namespace = params
        .get("namespace")
        .and_then(Json::text)
        .ok_or(wrong("`namespace` must be text"))?;
    let words = params
        .get("argv")
        .and_then(Json::list)
        .map(|words| words.iter().map(Json::text).collect());
    let argv: Vec<&str> = words
        .flatten()
        .ok_or(wrong("`argv` must be a list of words"))?;
    let output = plugin.command(namespace, &argv).unwrap_or_else(|| Output {
        stderr: format!("plugin does not handle namespace `{namespace}`\n"),
        exit_code: 2,
        ..Output::default()
    });
    Ok(Json::object([
        ("stdout", base64(output.stdout.as_bytes()).into()),
        ("stderr", base64(output.stderr.as_bytes()).into()),
        ("exit_code", output.exit_code.into()),
    ]))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three
            .iter()
            .fold(0, |bits, byte| bits << 8 | usize::from(*byte))
            << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[bits >> (18 - 6 * place) & 63] as char;
            text.push(if place <= three.len() { letter } else { '=' });
        }
    }
    text
}
